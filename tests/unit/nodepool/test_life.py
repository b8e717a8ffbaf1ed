"""A pool from its creation until it runs, and back: what is bought, made and removed, and in which order."""

from __future__ import annotations

import pytest
from anycloud_common.kube import names
from anycloud_nodepool.domain.model import ResourceState
from anycloud_nodepool.store.tables import METADATA
from anycloud_release.migrate import schema_differences

from tests.unit.nodepool.fakes import agent_config
from tests.unit.nodepool.rig import Rig


async def test_the_migrated_schema_is_the_declared_one(rig: Rig) -> None:
    assert schema_differences(rig.directory / "nodepool.sqlite", "nodepool", METADATA) == []


@pytest.mark.req("NP-017", "NP-046")
async def test_creation_answers_before_any_vm_exists_and_the_pool_runs_once_all_nodes_are_ready(rig: Rig) -> None:
    made = await rig.create(count=2)
    assert not rig.world.orders
    await rig.run(made.id)
    assert (await rig.pool(made.id)).state == "running"
    assert len(rig.world.machines()) == 2
    name = next(iter(rig.world.node_facts))
    rig.world.set_node(name, ready=False)
    await rig.run(made.id)
    pool = await rig.get()
    assert (pool.capacity.ready_vm_count, pool.capacity.starting_vm_count) == (1, 1)
