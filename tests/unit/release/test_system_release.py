"""`GET /v1/system-release`: what is served, which schema, which upgrade, how the rollout stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.errors import ApiError
from anycloud_common.release_values import ApiValues
from anycloud_common.store import Store
from anycloud_release.domain.ports import Condition, Rollout, RolloutUnknown
from anycloud_release.migrate import migrate_service, schema_differences
from anycloud_release.rpc.system_release import SystemReleaseServicer
from anycloud_release.store import revisions
from anycloud_release.store.tables import METADATA, REVISION, STAMP
from anycloudapi.release.v1 import release_pb2
from sqlalchemy import insert

INSTALLED = ApiValues("ghcr.io/anycloud-sh/api:0.1.70@sha256:aa", "0.1.70", "0.1.70", 1, "http://127.0.0.2:9000")


class Rollouts:
    def __init__(self, answer: Rollout | Exception | None) -> None:
        self.answer = answer

    async def read(self) -> Rollout | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "release.sqlite"
    migrate_service(path, "release")
    store = Store.open(path, "release", ManualClock(1_000))
    yield store
    store.close()


async def ask(store: Store, rollout: Rollout | Exception | None = None) -> release_pb2.ReleaseStatus:
    servicer = SystemReleaseServicer(store, Rollouts(rollout), "0.1.70", None)
    return await servicer.GetSystemRelease(release_pb2.GetSystemReleaseRequest(), None)


def test_the_migrated_schema_is_the_declared_one(tmp_path: Path) -> None:
    migrate_service(tmp_path / "release.sqlite", "release")
    assert schema_differences(tmp_path / "release.sqlite", "release", METADATA) == []


@pytest.mark.req("BK-039")
async def test_served_and_schema_version_are_shown(store: Store) -> None:
    await store.write(lambda tx: tx.conn.execute(insert(STAMP).values(version="0.1.70", schema_version=7)))
    status = await ask(store)
    assert (status.served_version, status.schema_version) == ("0.1.70", "7")


@pytest.mark.req("CL-042")
async def test_the_installation_is_recorded_once_as_revision_1_and_is_no_upgrade(store: Store) -> None:
    for _ in range(2):
        await store.write(lambda tx: revisions.record_installed(tx, INSTALLED))
    newest = await store.read(revisions.newest)
    assert newest is not None
    assert newest.number == 1
    assert not (await ask(store)).HasField("upgrade")


@pytest.mark.req("BK-039")
async def test_revision_3_is_shown_as_upgrade_2(store: Store) -> None:
    row = {
        "number": 3,
        "state": "failed",
        "api_version": "0.1.71",
        "api_image": "ghcr.io/anycloud-sh/api:0.1.71@sha256:bb",
        "chart_version": "0.1.71",
        "last_error": "The ready check failed.",
        "created_at": 5,
        "updated_at": 6,
    }
    await store.write(lambda tx: tx.conn.execute(insert(REVISION).values(row)))
    upgrade = (await ask(store)).upgrade
    assert (upgrade.number, upgrade.api_version, upgrade.last_error) == (2, "0.1.71", "The ready check failed.")
    assert upgrade.state == release_pb2.ReleaseStatus.Upgrade.STATE_FAILED


async def test_the_rollout_is_what_kubernetes_reports(store: Store) -> None:
    rollout = Rollout(1, 1, 1, 4, (Condition("Available", "True", "MinimumReplicasAvailable", None),))
    shown = (await ask(store, rollout)).rollout
    assert (shown.replicas, shown.ready_replicas, shown.observed_generation) == (1, 1, 4)
    assert [(c.type, c.HasField("message")) for c in shown.conditions] == [("Available", False)]


async def test_an_unreadable_cluster_is_said_with_the_declared_503(store: Store) -> None:
    with pytest.raises(ApiError) as caught:
        await ask(store, RolloutUnknown("The Deployment anycloud/anycloud-api couldn't be read: timeout"))
    assert caught.value.code == "SYSTEM_RELEASE_UNAVAILABLE"
