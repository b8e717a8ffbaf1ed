"""The revision that a service's database must have, read from its migrations without importing Alembic.

Alembic and its templates cost memory and start-up time in every process; only the migrator needs them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from anycloud_common.store.errors import StoreOpenError


def migrations_dir(service: str) -> Path:
    """`migrations/` of the package `anycloud_<service>`, which is found without being imported."""
    spec = find_spec(f"anycloud_{service}")
    if spec is None or not spec.submodule_search_locations:
        raise StoreOpenError(f"There is no package anycloud_{service}, so its migrations can't be found.")
    return Path(next(iter(spec.submodule_search_locations))) / "migrations"


def version_table(service: str) -> str:
    """Where Alembic keeps the revision of this service's tables."""
    return f"{service}_alembic_version"


def revisions(migrations: Path) -> dict[str, tuple[str, ...]]:
    """Each revision in `versions/*.py` with those that it stands on."""
    found: dict[str, tuple[str, ...]] = {}
    for file in sorted((migrations / "versions").glob("*.py")):
        values = _assignments(file)
        revision = values.get("revision")
        if isinstance(revision, str):
            found[revision] = _names(values.get("down_revision"))
    return found


def expected_head(service: str, migrations: Path | None = None) -> str:
    """The newest revision of the service. Raises StoreOpenError unless there is exactly one."""
    known = revisions(migrations or migrations_dir(service))
    heads = sorted(set(known) - {parent for parents in known.values() for parent in parents})
    if len(heads) != 1:
        found = ", ".join(heads) or "none"
        raise StoreOpenError(f"The migrations of {service} must have one newest revision, and have {found}.")
    return heads[0]


def current_head(conn: Connection, service: str) -> str | None:
    """The revision that the database says it has; None for one that was never migrated."""
    table = version_table(service)
    if not inspect(conn).has_table(table):
        return None
    # The name is made of a service's name, never of input.
    return conn.execute(text(f"SELECT version_num FROM {table}")).scalar_one_or_none()  # noqa: S608


def check_head(conn: Connection, service: str, expected: str) -> None:
    """Raises StoreOpenError unless the database has the expected revision."""
    current = current_head(conn, service)
    if current is None:
        raise StoreOpenError(f"The {service} database has no tables yet; anycloud-migrate makes them.")
    if current != expected:
        raise StoreOpenError(
            f"The {service} database has revision {current}, and this build needs {expected}; "
            "anycloud-migrate of this build brings an older one up to date, and there is no way back from a newer one."
        )


def _assignments(file: Path) -> dict[str, object]:
    """The literal values of the module's top-level assignments, with or without annotation."""
    values: dict[str, object] = {}
    for node in ast.parse(file.read_text(encoding="utf-8"), str(file)).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if name in ("revision", "down_revision"):
            values[name] = ast.literal_eval(value)
    return values


def _names(down_revision: object) -> tuple[str, ...]:
    if isinstance(down_revision, str):
        return (down_revision,)
    if isinstance(down_revision, Iterable):
        return tuple(str(name) for name in down_revision)
    return ()
