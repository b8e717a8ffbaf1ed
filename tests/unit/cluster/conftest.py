from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from anycloud_cluster.domain.resource import LedgerIdentity
from anycloud_cluster.store.ledger import Ledger, Wakes
from anycloud_common.cipher import Cipher
from anycloud_common.clock import ManualClock
from anycloud_common.store import Store
from anycloud_release.migrate import migrate_service

from tests.unit.cluster.fakes import World
from tests.unit.cluster.installation import Installation


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "cluster.sqlite"
    migrate_service(path, "cluster")
    return path


@pytest.fixture
def database(tmp_path: Path, migrated: Path) -> Path:
    shutil.copy(migrated, tmp_path / "cluster.sqlite")
    return tmp_path / "cluster.sqlite"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "cipher.key"


@pytest.fixture
def cipher(key: Path) -> Cipher:
    return Cipher.load(key)


@pytest.fixture
def store(database: Path, clock: ManualClock) -> Iterator[Store]:
    opened = Store.open(database, "cluster", clock)
    yield opened
    opened.close()


@pytest.fixture
def book(cipher: Cipher) -> Ledger:
    return Ledger(cipher, LedgerIdentity("installer-0a1b2c3d", "0a1b2c3d"), Wakes())


@pytest.fixture
async def installer(database: Path, key: Path, world: World, clock: ManualClock) -> AsyncIterator[Installation]:
    """With the credential `aws`, and no cluster."""
    made = Installation(database, key, world, clock)
    await made.with_credential()
    yield made
    made.close()


@pytest.fixture
async def running(installer: Installation) -> Installation:
    """With the cluster `prod`, which runs."""
    await installer.create()
    await installer.drive(lambda cluster: cluster.state == "running")
    return installer
