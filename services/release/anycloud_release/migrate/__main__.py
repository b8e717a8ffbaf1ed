"""`anycloud-migrate`: runs before the services of an installation, and again at each of its starts."""

from __future__ import annotations

import logging
import os
import sys

from anycloud_common.settings import SettingsError, api_version, data_directory
from anycloud_common.store.errors import StoreOpenError

from anycloud_release.migrate.errors import MigrationError
from anycloud_release.migrate.volume import migrate


def main() -> int:
    """Exit code 0 when the data directory has this build's schema, else 1 with one sentence on stderr."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    os.umask(0o077)  # databases and key are the owner's alone
    try:
        migrate(data_directory(), api_version())
    except (SettingsError, StoreOpenError, MigrationError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
