"""What a node pool must be to be created, and what is left behind when it isn't."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_nodepool.store.tables import POOL
from anycloudapi.common.internal.v1 import holds_pb2
from anycloudapi.nodepool.v1 import node_pools_pb2
from sqlalchemy import func, select

from tests.unit.nodepool.fakes import CLUSTER, unavailable
from tests.unit.nodepool.rig import Rig


async def refused(rig: Rig, **wanted: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await rig.create(**wanted)
    assert await rows(rig) == 0
    assert not rig.cluster_holds.held
    return caught.value


async def rows(rig: Rig) -> int:
    return await rig.store.read(lambda conn: conn.execute(select(func.count()).select_from(POOL)).scalar_one())


async def stored(rig: Rig, count: int) -> bool:
    return await rows(rig) == count


@pytest.mark.req("NP-009", "NP-010", "NP-011", "NP-012", "NP-013", "NP-014", "NP-027", "OPEN-041")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"name": "1st"}, "starting with a letter"),
        ({"name": "a_b"}, "isn't allowed"),
        ({"min_vm_count": 1, "max_vm_count": 2}, "must be equal"),
        ({"min_vm_count": 0, "max_vm_count": 0}, "at least 1"),
        ({"min_vm_count": 1001, "max_vm_count": 1001}, "at most 1000"),
        ({"vm_types": ["m5.large", "t3.large"]}, "one VM type"),
        ({"region": None}, "--region is missing"),
        ({"region": "mars-1"}, "not a region of AWS"),
        ({"zone": "eu-west-1a"}, "does not belong to region us-east-1"),
        ({"zone": "us-east-1z"}, "has no zone us-east-1z"),
        ({"vm_types": ["t4g.medium"]}, "only x86_64 is supported"),
        ({"credential_name": "azure", "region": "eastus", "zone": "eastus-1"}, "a single digit"),
        ({"credential_name": "azure", "region": "eastus", "zone": "12"}, "a single digit"),
        ({"credential_name": "lambda", "region": "us-east-1"}, "Lambda is not supported here"),
        ({"credential_name": "lambda", "region": "us-east-1", "zone": "a"}, "Lambda"),
        ({"credential_name": "cloudflare", "region": "auto"}, "Cloudflare is not supported here"),
    ],
)
async def test_a_pool_that_cannot_be_is_refused_and_nothing_is_stored(
    rig: Rig, wanted: dict[str, Any], said: str
) -> None:
    error = await refused(rig, **wanted)
    assert error.code == "NODE_POOL_INVALID"
    assert said in error.message


@pytest.mark.req("NP-009", "NP-010")
@pytest.mark.parametrize(
    "wanted",
    [
        {"zone": "us-east-1a"},
        {"credential_name": "gcp", "region": "us-central1", "zone": "us-central1-a", "vm_types": ["e2-standard-2"]},
        {"credential_name": "azure", "region": "eastus", "zone": "1", "vm_types": ["Standard_D2s_v5"]},
        {"vm_types": ["brand-new.xlarge"]},
    ],
)
async def test_zones_in_each_clouds_own_shape_and_unknown_vm_types_are_accepted(
    rig: Rig, wanted: dict[str, Any]
) -> None:
    made = await rig.create(**wanted)
    assert (made.zone or None) == wanted.get("zone")


@pytest.mark.req("NP-006", "CL-137", "OPEN-033")
@pytest.mark.parametrize(
    ("state", "accepting", "code"),
    [
        (None, True, "NODE_POOLS_UNAVAILABLE"),
        ("provisioning", True, "NODE_POOLS_UNAVAILABLE"),
        ("initializing", True, "NODE_POOLS_UNAVAILABLE"),
        ("starting", True, "NODE_POOLS_UNAVAILABLE"),
        ("failed", True, "CLUSTER_NOT_ACCEPTING"),
        ("terminated", True, "CLUSTER_NOT_ACCEPTING"),
        ("running", False, "CLUSTER_NOT_ACCEPTING"),
    ],
)
async def test_only_a_running_cluster_that_is_not_being_deleted_takes_pools(
    rig: Rig, state: str | None, accepting: bool, code: str
) -> None:
    rig.world.cluster = replace(CLUSTER, state=state, accepting=accepting) if state else None
    assert (await refused(rig)).code == code


@pytest.mark.req("NP-007")
@pytest.mark.parametrize("cluster", [None, "cl-1", "main"])
async def test_the_cluster_may_be_left_out_or_named_by_id_or_name(rig: Rig, cluster: str | None) -> None:
    assert (await rig.create(cluster=cluster)).cluster_id == "cl-1"


@pytest.mark.req("NP-007")
async def test_an_unknown_cluster_is_refused(rig: Rig) -> None:
    assert (await refused(rig, cluster="other")).code == "CLUSTER_NOT_FOUND"


@pytest.mark.req("NP-004")
async def test_an_unknown_credential_is_refused_by_its_name(rig: Rig) -> None:
    error = await refused(rig, credential_name="nobody")
    assert error.code == "NODE_POOL_CREDENTIAL_NOT_FOUND"
    assert "'nobody'" in error.message


@pytest.mark.req("NP-004", "OPEN-032")
@pytest.mark.parametrize("url", ["", "https://cl-1.anycloud.sh"])
async def test_an_installer_refuses_and_names_the_hosted_api_when_it_knows_one(tmp_path: Any, url: str) -> None:
    rig = Rig(tmp_path)
    await rig.start(hosted=False)
    rig.world.cluster = replace(CLUSTER, management_api_url=url)
    error = await refused(rig)
    assert error.code == "NODE_POOLS_UNAVAILABLE"
    assert ("`anycloud api use https://cl-1.anycloud.sh`" in error.message) == bool(url)
    assert (await rig.rpc.ListNodePools(node_pools_pb2.ListNodePoolsRequest(), None)).node_pools == []
    rig.stop()


@pytest.mark.req("AU-022", "AU-023", "AU-024")
@pytest.mark.parametrize(
    "problem",
    [
        "The cluster runs Kubernetes v1.34.2; v1.35 to v1.38 are supported.",
        "The cluster denies Anycloud: patch nodes.",
    ],
)
async def test_each_creation_asks_the_cluster_anew_and_is_refused_with_what_is_wrong(rig: Rig, problem: str) -> None:
    await rig.create("first")
    rig.world.problem_list = [problem]
    with pytest.raises(ApiError) as caught:
        await rig.create("second")
    assert (caught.value.code, caught.value.message) == ("NODE_POOL_INVALID", problem)
    assert await rows(rig) == 1


async def test_a_cluster_that_cannot_be_asked_refuses_for_now(rig: Rig) -> None:
    rig.world.refuse("problems", KubeError("unreachable", "no route"))
    error = await refused(rig)
    assert error.code == "NODE_POOLS_UNAVAILABLE"
    assert "no route" in error.message


@pytest.mark.req("OPEN-016")
async def test_live_names_are_unique_whatever_their_case_and_never_an_id(rig: Rig) -> None:
    made = await rig.create("Voice")
    for name in ("Voice", "voice", made.id):
        with pytest.raises(ApiError) as caught:
            await rig.create(name)
        assert caught.value.code == "NODE_POOL_ALREADY_EXISTS"


async def test_the_name_of_a_deleted_pool_is_free_again(rig: Rig) -> None:
    pool_id = await rig.running("cpu")
    await rig.delete("cpu")
    await rig.run(pool_id)
    assert (await rig.create("CPU")).id != pool_id


async def test_a_refusal_of_the_parents_is_answered_and_drops_what_was_stored(rig: Rig) -> None:
    rig.cluster_holds.refusal = holds_pb2.Refused(
        code="CLUSTER_NOT_ACCEPTING", message="Cluster main is being deleted."
    )
    error = await refused(rig)
    assert (error.code, error.message) == ("CLUSTER_NOT_ACCEPTING", "Cluster main is being deleted.")


async def test_a_pool_is_seen_by_nobody_before_its_parents_are_held_and_keeps_its_name_meanwhile(rig: Rig) -> None:
    rig.cluster_holds.gate = asyncio.Event()
    creating = asyncio.create_task(rig.create("cpu"))
    await rig.until(lambda: stored(rig, 1))
    with pytest.raises(ApiError, match="no node pool 'cpu'"):
        await rig.get("cpu")
    with pytest.raises(ApiError) as caught:
        await rig.create("CPU")
    assert caught.value.code == "NODE_POOL_ALREADY_EXISTS"
    rig.cluster_holds.gate.set()
    made = await creating
    assert (await rig.get("cpu")).id == made.id
    assert list(rig.cluster_holds.held.values()) == [[("cluster", "cl-1"), ("credential", "cred-aws")]]


async def test_a_creation_that_a_kill_cut_off_leaves_neither_row_nor_hold(rig: Rig) -> None:
    rig.cluster_holds.gate = asyncio.Event()
    creating = asyncio.create_task(rig.create("cpu"))
    await rig.until(lambda: stored(rig, 1))
    rig.stop()
    rig.cluster_holds.gate = None
    creating.cancel()
    await asyncio.gather(creating, return_exceptions=True)
    await rig.start()
    await rig.admissions.recover()
    reconciling = asyncio.create_task(rig.admissions.run())
    await rig.until(lambda: stored(rig, 0))
    reconciling.cancel()
    assert not rig.cluster_holds.held


async def test_without_the_cluster_service_a_creation_is_answered_as_unavailable(rig: Rig) -> None:
    rig.world.refuse("find cluster", unavailable())
    with pytest.raises(Exception) as caught:
        await rig.create()
    assert getattr(caught.value, "unavailable", False) is True
