"""The migrator: the only part that knows Alembic. Services never migrate; they refuse what isn't their own."""

from anycloud_release.migrate.database import migrate_postgres, migrate_service, schema_differences
from anycloud_release.migrate.errors import MigrationError
from anycloud_release.migrate.schema import SCHEMA_VERSION
from anycloud_release.migrate.volume import migrate

__all__ = ["SCHEMA_VERSION", "MigrationError", "migrate", "migrate_postgres", "migrate_service", "schema_differences"]
