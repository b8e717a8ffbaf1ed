"""Brings a data directory to this build's schema, alone, before any service starts."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from anycloud_common.store import heads
from anycloud_common.store.lock import FileLock, lock_path

from anycloud_release.migrate import stamp
from anycloud_release.migrate.database import migrate_service, revision
from anycloud_release.migrate.durable import appearing
from anycloud_release.migrate.errors import MigrationError
from anycloud_release.migrate.fill import fill, is_empty, missing
from anycloud_release.migrate.schema import SCHEMA_VERSION, SERVICES
from anycloud_release.migrate.stamp import Stamp

log = logging.getLogger(__name__)


def migrate(data_dir: Path, version: str) -> None:
    """Fills an empty volume, copies the databases if they are to be changed, migrates them in order, stamps them.

    version: this build's. A run that was killed at any point is completed by the next one. Raises MigrationError or
    StoreOpenError with one sentence.
    """
    with ExitStack() as held:
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _hold(held, FileLock(data_dir / "migrate.lock", f"The data directory {data_dir}"))
            if is_empty(data_dir):
                fill(data_dir)
            _migrate_filled(data_dir, Stamp(version, SCHEMA_VERSION), held)
        except (OSError, sqlite3.Error) as error:
            raise MigrationError(f"The data directory {data_dir} can't be prepared: {error}.") from error


def _migrate_filled(data_dir: Path, image: Stamp, held: ExitStack) -> None:
    if absent := missing(data_dir):
        raise MigrationError(f"The data directory {data_dir} is damaged: {', '.join(absent)} missing in db.")
    files = {service: data_dir / "db" / f"{service}.sqlite" for service in SERVICES}
    for service, file in files.items():
        _hold(held, FileLock(lock_path(file), f"The {service} database"))
    found = stamp.read(files["release"])
    if found is not None and found.refuses(image):
        raise MigrationError(
            f"The data in {data_dir} was served by version {found.version} (schema {found.schema_version}) and this is "
            f"{image.version} (schema {image.schema_version}); going back to an older version is a restore."
        )
    behind = _behind(files)
    if found is not None and (emptied := [service for service, current in behind.items() if current is None]):
        raise MigrationError(
            f"The data directory {data_dir} is damaged: the {emptied[0]} database has lost its tables."
        )
    if any(current is not None for current in behind.values()):
        _copy(files, data_dir / f"before-schema-{image.schema_version}")
    for service in behind:
        migrate_service(files[service], service)
        log.info("%s migrated to %s", service, heads.expected_head(service))
    if found != image:
        stamp.write(files["release"], image)
        _drop_older_copies(data_dir, image)


def _hold(held: ExitStack, lock: FileLock) -> None:
    held.callback(lock.release)


def _behind(files: dict[str, Path]) -> dict[str, str | None]:
    """The services to migrate, in order, with their present revision. Refuses what this build doesn't know."""
    behind: dict[str, str | None] = {}
    for service, file in files.items():
        current = revision(file, service)
        if current is not None and current not in heads.revisions(heads.migrations_dir(service)):
            raise MigrationError(
                f"The {service} database has revision {current}, which this build doesn't know: "
                "a newer build made it, and going back to an older one is a restore."
            )
        if current != heads.expected_head(service):
            behind[service] = current
    return behind


def _copy(files: dict[str, Path], target: Path) -> None:
    """Copies the databases as they are before the migration. A copy that is there already was made by a run that didn't
    get to its end: it holds the older state, and stays."""
    if target.exists():
        return
    with appearing(target, target.with_name(f"{target.name}.new")) as working:
        for file in files.values():
            with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(working / file.name)) as copy:
                source.backup(copy)


def _drop_older_copies(data_dir: Path, image: Stamp) -> None:
    for copy in data_dir.glob("before-schema-*"):
        if copy.name != f"before-schema-{image.schema_version}":
            shutil.rmtree(copy, ignore_errors=True)
