"""A store without migrations, for tests of what stands on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import MetaData, create_engine

from anycloud_common.clock import Clock
from anycloud_common.store.changes import change_table
from anycloud_common.store.ownership import owner_table
from anycloud_common.store.store import Store, end_process


def open_scratch(
    path: Path, service: str, metadata: MetaData, clock: Clock, fatal: Callable[[str], None] = end_process
) -> Store:
    """Makes the tables of `metadata` (and the store's own) in the file, where absent, and opens it."""
    change_table(service, metadata)
    owner_table(service, metadata)
    engine = create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    engine.dispose()
    return Store.open(path, service, clock, check_head=False, fatal=fatal)
