"""A cluster whose version nobody tried gets no node pool, whatever else it answers."""

from __future__ import annotations

import grpc
import pytest
from aiohttp import web

from tests.kube.door import Call
from tests.kube.product import Product

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.req("AU-021", "AU-024")
@pytest.mark.parametrize("version", ["v1.34.9+k3s1", "v1.39.0+k3s1"])
async def test_a_version_out_of_the_window_refuses_a_node_pool_and_names_itself(product: Product, version: str) -> None:
    async def speak(call: Call) -> web.StreamResponse | None:
        return web.json_response({"gitVersion": version}) if call.resource == "/version" else None

    before = product.kubelets.machines()
    product.door.fault = speak
    try:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await product.create_pool("untried")
    finally:
        product.door.fault = None
    assert f"The cluster runs Kubernetes {version}; v1.35 to v1.38 are supported." in str(refused.value.details())
    assert product.kubelets.machines() == before
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await product.pool("untried")
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
