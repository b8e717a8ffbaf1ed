"""Which VM is the ingress entry, and what a pool without Services shows of it."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_nodepool.domain.ingress import TAKEOVER_MS, elect
from anycloud_nodepool.domain.model import Attempt, Stage

from tests.unit.nodepool.rig import Rig


def vm(number: int, *, ready: bool = True, since: int | None = None, stage: Stage = Stage.JOINED) -> Attempt:
    values: dict[str, Any] = {"node_ready": ready and stage is Stage.JOINED, "not_ready_seen": since}
    return Attempt(f"at-{number}-x", number, "np-1", 0, 0, f"n{number}", "t", stage, 0, **values)


@pytest.mark.req("IN-001", "OPEN-045")
def test_the_lowest_ready_attempt_in_the_order_of_issue_is_elected() -> None:
    assert elect(None, [vm(10), vm(9), vm(2, ready=False, since=0)], 0) == "at-9-x"
    assert elect(None, [vm(10), vm(9)], 0) == "at-9-x"  # as text, 10 would come first
    assert elect(None, [vm(1, ready=False)], 0) is None


@pytest.mark.req("IN-005")
def test_two_minutes_of_not_ready_hand_the_role_to_the_lowest_other_ready_vm() -> None:
    vms = [vm(1, ready=False, since=1000), vm(3), vm(2)]
    assert elect("at-1-x", vms, 1000 + TAKEOVER_MS - 1) == "at-1-x"
    assert elect("at-1-x", vms, 1000 + TAKEOVER_MS) == "at-2-x"


@pytest.mark.req("OPEN-046")
def test_the_role_does_not_go_back_when_the_old_entry_recovers() -> None:
    assert elect("at-2-x", [vm(1), vm(2)], 0) == "at-2-x"


@pytest.mark.req("IN-006")
def test_without_another_ready_vm_the_role_stays_until_the_vm_is_replaced() -> None:
    alone = [vm(1, ready=False, since=0), vm(2, ready=False, since=0)]
    assert elect("at-1-x", alone, 10 * TAKEOVER_MS) == "at-1-x"
    assert elect("at-1-x", [vm(1, stage=Stage.DRAINING), vm(3)], 0) == "at-3-x"
    assert elect("at-1-x", [vm(1, stage=Stage.DRAINING)], 0) is None


@pytest.mark.req("IN-007", "IN-025", "IN-026", "IN-033")
async def test_a_pool_without_services_has_neither_entry_nor_release(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    await rig.hold(pool_id)
    await rig.run(pool_id)
    shown = await rig.get()
    assert shown.HasField("ingress")
    assert not shown.ingress.HasField("entry_ip")
    assert not shown.ingress.HasField("release")
    assert not shown.HasField("ingress_entry_ip")
    assert not [call for call in rig.world.calls if "HelmChart" in call or "ingress" in call]
    assert all("anycloud.sh/ingress-entry" not in node.labels for node in rig.world.node_facts.values())
