"""Tokens that end: the API's own, which is read again and waited for, and those of workloads."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import pytest
from aiohttp import web
from anycloud_common.kube import Kube, transport
from anycloud_common.kube.names import WORKLOAD_TOKEN_AUDIENCE

from tests.kube.door import Call, answer
from tests.kube.product import RUNNING, Product, execution

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Revoked:
    """The server behind the door doesn't accept these tokens any more."""

    def __init__(self, product: Product, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.refused = 0
        product.door.fault = self._check
        product.door.cut()  # what is open was let in with them

    async def _check(self, call: Call) -> web.StreamResponse | None:
        if call.token not in self.tokens:
            return None
        self.refused += 1
        return answer(401, "Unauthorized", "the token has been invalidated")


async def test_a_rotated_token_is_read_again_as_soon_as_the_old_one_is_refused(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read each minute anyway, but for here; who waited for that would be blind until then."""
    monkeypatch.setattr(transport, "_TOKEN_FILE_LIFE_S", 3600.0)
    revoked = Revoked(product, product.token)
    await product.rotate()
    made = await product.deploy("shared")
    await product.ready(made, seconds=30)
    assert revoked.refused > 0
    assert product.door.calls[-1].token == product.token


async def test_an_api_whose_token_is_refused_says_so_waits_and_goes_on_with_the_next(product: Product) -> None:
    second = await product.running_pool("second")
    old = product.token
    revoked = Revoked(product, old)
    new = await product.deploy("second")
    said = await product.pool_says(second, "cluster unavailable", "invalidated")
    assert old not in said
    await asyncio.sleep(1)
    assert (await product.pool(second)).state == RUNNING, "a refused token is no verdict on VMs"
    assert not (await product.deployment(new)).status.ready
    asked = revoked.refused
    await product.rotate()
    await product.ready(new)
    assert asked < 200, "it doesn't hammer a server that refuses it"


async def test_a_workload_token_ends_with_its_pod(product: Product) -> None:
    made = await product.deploy("shared")
    pod = await product.ready(made)
    token = await product.token_of(pod)
    about = pod["metadata"]
    await product.kube.delete("Pod", about["name"], about["namespace"], about["uid"])
    await product.submit(made, f"job-of-{made}")

    async def replaced() -> bool:
        status = (await product.deployment(made)).status
        return bool(status.ready and status.pod_uid != about["uid"])

    await product.until(replaced, partial(product.deployment, made))
    taken = await refused_or_nothing(product, made, token)
    assert taken is None, "the server may still believe the token; the Pod is gone all the same"
    fresh = await product.token_of(await product.ready(made))
    run = execution()
    job_id = await product.pick_up(made, fresh, run)
    assert job_id == f"job-of-{made}"
    await product.finish(made, fresh, job_id, run)
    await product.job_is(job_id, "completed")


async def refused_or_nothing(product: Product, deployment_id: str, token: str) -> str | None:
    """What a worker gets with that token: a Job's id, or None, also where it is refused."""
    try:
        return await product.pick_up(deployment_id, token, execution(), wait_ms=0)
    except grpc.aio.AioRpcError as error:
        assert error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED), error
        return None


async def test_a_workload_token_of_a_removed_account_is_worth_nothing_and_the_next_pods_is(product: Product) -> None:
    made = await product.deploy("shared")
    pod = await product.ready(made)
    old = await product.token_of(pod)
    namespace = product.namespace(product.pool_ids[0])
    account = await product.kube.get("ServiceAccount", made, namespace)
    assert account is not None
    await product.kube.delete("ServiceAccount", made, namespace, account["metadata"]["uid"])
    new = await product.ready(made, generation=2)
    await product.until(partial(nobodys, product.kube, old), partial(product.deployment, made))
    await product.submit(made, f"job-of-{made}")
    assert await refused_or_nothing(product, made, old) is None
    token = await product.token_of(new)
    run = execution()
    job_id = await product.pick_up(made, token, run)
    assert job_id is not None
    await product.finish(made, token, job_id, run)


async def nobodys(kube: Kube, token: str) -> bool:
    return await kube.token_review(token, [WORKLOAD_TOKEN_AUDIENCE]) is None


async def test_a_review_that_gets_no_answer_refuses_nobody(product: Product) -> None:
    """Workers ride a 503 out, and end on a 401."""
    made = await product.deploy("shared")
    token = await product.token_of(await product.ready(made))
    await product.submit(made, f"job-of-{made}")
    asked: list[Call] = []

    async def fail(call: Call) -> web.StreamResponse | None:
        if call.is_a("create", "tokenreviews") and len(asked) < 3:
            asked.append(call)
            return answer(500, "InternalError")
        return None

    product.door.fault = fail
    run = execution()
    job_id = await product.pick_up(made, token, run)
    assert job_id is not None
    assert len(asked) == 3
    await product.finish(made, token, job_id, run)
