"""An install of the API's chart that doesn't come to its end: told, begun anew a few times, and never after it ran."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_cluster.domain import helm
from anycloud_cluster.domain.cluster import Cluster, State
from anycloud_cluster.reconcile.create.installation import REPAIRS
from anycloud_cluster.store import events

from tests.unit.cluster.fakes import World, cut_off_install
from tests.unit.cluster.installation import Installation, at_rest

RECORD = ("Secret", "anycloud", "sh.helm.release.v1.anycloud-api.v1")
JOB = ("Job", "kube-system", "helm-install-anycloud-api")
WORDS = "waiting for operator intervention"


def at_serve(cluster: Cluster) -> bool:
    return cluster.phase == "serve"


async def test_an_install_that_was_cut_off_is_begun_anew_and_comes_to_its_end(
    installer: Installation, world: World
) -> None:
    world.cut_off = 1
    await installer.create()
    await installer.drive(at_serve)
    told = await installer.drive(lambda cluster: cluster.last_error is not None)
    assert WORDS in (told.last_error or "")
    assert RECORD not in world.objects
    assert JOB not in world.objects
    cluster = await installer.drive(at_rest)
    assert (cluster.state, cluster.last_error) == (State.RUNNING, None)


async def test_what_never_works_is_told_and_can_be_begun_again_by_a_person(
    installer: Installation, world: World
) -> None:
    world.cut_off = 2 * REPAIRS
    await installer.create()
    cluster = await installer.drive(at_rest)
    assert cluster.state is State.FAILED
    assert f"begun anew {REPAIRS} times" in (cluster.last_error or "")
    assert WORDS in (cluster.last_error or "")
    assert world.cut_off == REPAIRS
    await installer.create()
    cluster = await installer.drive(at_rest)
    assert cluster.state is State.RUNNING


async def test_a_release_that_has_run_is_never_taken_away(installer: Installation, world: World) -> None:
    world.cut_off, world.record = 1, "superseded"
    await installer.create()
    await installer.drive(at_serve)
    for _ in range(5):
        await installer.step()
    assert RECORD in world.objects
    assert JOB in world.objects
    assert WORDS in ((await installer.cluster()).last_error or "")


async def test_beginning_anew_is_on_record_before_it_is_done(installer: Installation, world: World) -> None:
    world.cut_off = 1
    world.fault("kube.delete", ConnectionError())
    await installer.create()
    with pytest.raises(ConnectionError):
        await installer.drive(at_rest)
    cluster = await installer.cluster()
    log = await installer.store.read(lambda conn: events.of_cluster(conn, cluster.id))
    assert [line.reason for line in log].count("release.begun-anew") == 1
    assert RECORD in world.objects


@pytest.mark.parametrize("status", ["deployed", "superseded", "pending-upgrade", "uninstalling"])
def test_a_release_ran_by_its_records(status: str) -> None:
    record = cut_off_install(status)[RECORD]
    assert not helm.never_ran([cut_off_install("failed")[RECORD], record])


def test_an_attempt_that_still_runs_is_no_trouble() -> None:
    running: dict[str, Any] = {"metadata": {}, "status": {"containerStatuses": [{"state": {"running": {}}}]}}
    assert helm.trouble([running]) is None
    assert not helm.gave_up({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}})
