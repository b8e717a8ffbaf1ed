from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from anycloud_cluster.domain.resource import LedgerIdentity
from anycloud_cluster.store.ledger import Ledger, Wakes
from anycloud_common.cipher import Cipher
from anycloud_common.clock import ManualClock
from anycloud_common.store import Store
from anycloud_release.migrate import migrate_service


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cipher(tmp_path: Path) -> Cipher:
    return Cipher.load(tmp_path / "cipher.key")


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    path = tmp_path / "cluster.sqlite"
    migrate_service(path, "cluster")
    opened = Store.open(path, "cluster", clock)
    yield opened
    opened.close()


@pytest.fixture
def wakes() -> Wakes:
    return Wakes()


@pytest.fixture
def book(cipher: Cipher, wakes: Wakes) -> Ledger:
    return Ledger(cipher, LedgerIdentity("installer-0a1b2c3d", "0a1b2c3d"), wakes)
