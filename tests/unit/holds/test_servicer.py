"""The contract of HoldService, as any caller meets it on the socket."""

from __future__ import annotations

import grpc
import pytest
from anycloudapi.common.internal.v1 import holds_pb2

from tests.unit.holds.parent import POOL, ParentService


def message(
    id: str = "adm-1", *, owner: str = "dep-1", pools: tuple[str, ...] = ("np-1",), devices: int = 0
) -> holds_pb2.Admission:
    parents = [holds_pb2.Parent(kind=POOL, id=pool) for pool in pools]
    owned_by = holds_pb2.Owner(kind="deployment", id=owner)
    return holds_pb2.Admission(id=id, owner=owned_by, parents=parents, devices=devices)


def acquire(admission: holds_pb2.Admission, service: str = "deployment") -> holds_pb2.AcquireHoldsRequest:
    return holds_pb2.AcquireHoldsRequest(service=service, admission=admission)


async def test_a_grant_and_its_repetition_are_answered_alike(parent: ParentService) -> None:
    answers = [await parent.stub.AcquireHolds(acquire(message())) for _ in range(2)]
    assert [answer.WhichOneof("outcome") for answer in answers] == ["granted", "granted"]


async def test_a_refusal_is_an_ordinary_answer(parent: ParentService) -> None:
    answer = await parent.stub.AcquireHolds(acquire(message(pools=("np-none",))))
    assert answer.refused == holds_pb2.Refused(
        parent_kind=POOL, parent_id="np-none", code="NOT_FOUND", message="There is no node-pool np-none."
    )


async def test_releases_are_answered_for_known_and_unknown_ids(parent: ParentService) -> None:
    await parent.stub.AcquireHolds(acquire(message()))
    await parent.stub.ReleaseHolds(holds_pb2.ReleaseHoldsRequest(admission_ids=["adm-1", "adm-none"]))
    await parent.stub.ReleaseHolds(holds_pb2.ReleaseHoldsRequest())
    assert await parent.held() == set()


async def test_a_replacement_takes_the_full_set(parent: ParentService) -> None:
    await parent.stub.AcquireHolds(acquire(message("adm-old")))
    replacement = [message("adm-1", devices=1), message("adm-2", owner="dep-2", devices=2)]
    await parent.stub.ReplaceHolds(
        holds_pb2.ReplaceHoldsRequest(service="deployment", incarnation="life-2", admissions=replacement)
    )
    assert await parent.held() == {"adm-1", "adm-2"} and await parent.devices_held("np-1") == 3


BROKEN = {
    "no id": message(""),
    "no owner": message(owner=""),
    "no parents": message(pools=()),
    "a parent without id": message(pools=("",)),
    "a parent twice": message(pools=("np-1", "np-1")),
    "negative devices": message(devices=-1),
}


@pytest.mark.parametrize("admission", BROKEN.values(), ids=BROKEN.keys())
async def test_an_impossible_admission_is_an_invalid_argument_and_stores_nothing(
    parent: ParentService, admission: holds_pb2.Admission
) -> None:
    replacement = holds_pb2.ReplaceHoldsRequest(service="deployment", incarnation="life-2", admissions=[admission])
    for call in (parent.stub.AcquireHolds(acquire(admission)), parent.stub.ReplaceHolds(replacement)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await parent.held() == set()


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("AcquireHolds", acquire(message(), service="")),
        ("ReleaseHolds", holds_pb2.ReleaseHoldsRequest(admission_ids=["adm-1", ""])),
        ("ReplaceHolds", holds_pb2.ReplaceHoldsRequest(service="", incarnation="life-2")),
        ("ReplaceHolds", holds_pb2.ReplaceHoldsRequest(service="deployment")),
        (
            "ReplaceHolds",
            holds_pb2.ReplaceHoldsRequest(service="x", incarnation="life-2", admissions=[message(), message()]),
        ),
    ],
)
async def test_a_request_that_lacks_a_part_is_an_invalid_argument(
    parent: ParentService, method: str, request_: object
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(parent.stub, method)(request_)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
