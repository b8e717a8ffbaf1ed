"""The real Envoy in front of a real service."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from anycloud_common import errors
from anycloud_gateway.command import command
from anycloud_gateway.config import envoy_config
from google.protobuf.empty_pb2 import Empty

from tests.unit.gateway.conftest import Gateway
from tests.unit.server import probe_api
from tests.unit.server.probe_api import GRPC, Probe, pb

pytestmark = pytest.mark.asyncio(loop_scope="function")
RESTARTING = {
    "code": "API_RESTARTING",
    "defined": True,
    "message": "The API is restarting; try again in a moment.",
    "status": 503,
}


def shape(answer: httpx.Response) -> tuple[int, str, bool]:
    """Status, code and defined of an error, once it is sure that it has the contract's shape."""
    body = answer.json()
    assert set(body) - {"data"} == {"code", "defined", "message", "status"}
    assert body["status"] == answer.status_code
    assert body["message"]
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, body["code"], body["defined"]


# --- successes


async def test_a_success_has_the_methods_exact_status(probe: Probe, client: httpx.AsyncClient) -> None:
    created = await client.post("/v1/things", json={"name": "x"})
    assert (created.status_code, created.json()) == (202, {"thing": {"name": "x", "note": None}})
    assert created.headers["content-type"] == "application/json"
    assert (await client.get("/v1/things/x")).status_code == 200


async def test_204_has_neither_body_nor_content_type(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.delete("/v1/things/x")
    assert (answer.status_code, answer.content, answer.headers.get("content-type")) == (204, b"", None)


async def test_a_list_may_be_the_root_of_the_answer(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/things")
    assert [thing["name"] for thing in answer.json()] == ["t0", "t1"]


async def test_a_page_of_a_list_names_the_total_and_the_next_page(probe: Probe, client: httpx.AsyncClient) -> None:
    first = await client.get("/v1/things", params={"limit": "1", "prefix": "x y"})
    assert [thing["name"] for thing in first.json()] == ["x y0"]
    assert first.headers["anycloud-total-count"] == "2"
    assert first.headers["link"] == '</v1/things?limit=1&prefix=x+y&cursor=a%2Fb%20c>; rel="next"'
    last = await client.get(first.links["next"]["url"])
    assert (last.status_code, last.headers["anycloud-total-count"], last.headers.get("link")) == (200, "2", None)


async def test_grpc_clients_have_cursor_and_total_as_fields(probe: Probe, gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        call = probe_api.stubs.ThingsStub(channel).ListThings(pb.ListThingsRequest(limit=1), metadata=GRPC)
        page = await call
        assert (page.next_cursor, page.total_count) == ("a/b c", 2)
        assert "link" not in dict(await call.initial_metadata())


async def test_an_escaped_slash_belongs_to_the_name(probe: Probe, client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/things/a%2Fb%20c")).json()["name"] == "a/b c"


async def test_bytes_that_are_no_text_do_not_make_a_name(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/things/a%FFb")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["message"] == "url: path and query must be UTF-8 text"


@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc+proto", "application/grpc-web"])
async def test_an_http_path_with_the_content_type_of_grpc_is_http(
    probe: Probe, client: httpx.AsyncClient, kind: str
) -> None:
    """Its answer would be a 200 without content otherwise, which a client may take for a success."""
    got = await client.get("/v1/things/a", headers={"content-type": kind})
    assert (got.status_code, got.headers["content-type"]) == (200, "application/json")
    post = await client.post("/v1/things", content=b"{}", headers={"content-type": kind})
    assert (post.status_code, post.headers["content-type"]) == (400, "application/json")
    assert "content-type must be application/json" in post.json()["message"]
    unknown = await client.get("/v1/nothing", headers={"content-type": kind})
    assert unknown.status_code == unknown.json()["status"] >= 400


async def test_a_plus_in_the_query_is_a_space_and_an_escaped_one_a_plus(
    probe: Probe, client: httpx.AsyncClient
) -> None:
    assert (await client.get("/v1/things?prefix=a+b%2B")).json()[0]["name"] == "a b+0"
    assert (await client.get("/v1/things?prefix=a?=b%26=c")).json()[0]["name"] == "a?=b&=c0"


async def test_zero_bytes_are_a_body_where_none_is_declared(probe: Probe, client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/sign-in", content=b"")).status_code == 200


async def test_a_stream_is_a_line_a_message(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/thing-log")
    assert [json.loads(line)["name"] for line in answer.text.splitlines()] == ["first", "second"]
    assert answer.headers["content-type"] == "application/x-ndjson"


async def test_a_stream_without_a_message_is_no_line(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/thing-log?prefix=nothing")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/x-ndjson"


async def test_a_line_is_there_before_the_stream_ends(probe: Probe, client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/v1/thing-log?prefix=hold") as answer:
        line = await anext(answer.aiter_lines())
    assert json.loads(line)["name"] == "first"


# --- errors


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("raise-declared", (404, "CLUSTER_NOT_FOUND", True)),
        ("raise-data", (404, "CREDENTIAL_NOT_FOUND", True)),
        ("raise-undeclared", (409, "SECRET_IN_USE", False)),
        ("raise-not-available", (403, "NOT_AVAILABLE", False)),
        ("raise-busy", (503, "CLUSTER_UNAVAILABLE", True)),
        ("raise-crash", (500, "INTERNAL", False)),
        ("abort", (500, "INTERNAL", False)),
    ],
)
async def test_what_a_handler_raises_has_the_contracts_shape(
    probe: Probe, client: httpx.AsyncClient, name: str, expected: Any
) -> None:
    answer = await client.get(f"/v1/things/{name}")
    assert shape(answer) == expected
    assert "secret" not in answer.text


async def test_a_message_keeps_every_character(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/things/raise-declared")
    assert answer.json()["message"] == "no such thing – “höchst” unique"


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1/nothing"),
        ("PUT", "/v1/things/x"),
        ("POST", "/anycloudapi.probe.v1.Things/ListThings"),
    ],
)
async def test_an_unknown_path_or_verb_is_404(probe: Probe, client: httpx.AsyncClient, verb: str, path: str) -> None:
    assert shape(await client.request(verb, path)) == (404, "NOT_FOUND", False)


async def test_an_unknown_query_parameter_is_400_and_named(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/things/x?nope=1")
    assert shape(answer) == (400, "BAD_REQUEST", False)
    assert answer.json()["message"] == 'unknown query parameter "nope".'


async def test_the_query_cannot_override_a_path_variable(probe: Probe, client: httpx.AsyncClient) -> None:
    assert shape(await client.get("/v1/things/mine?name=evil"))[0] == 400
    assert probe.things.calls == []


async def test_a_body_that_is_no_json_is_400(probe: Probe, client: httpx.AsyncClient) -> None:
    assert shape(await client.post("/v1/things", content=b"name: x")) == (400, "CLUSTER_INVALID", True)
    answer = await client.post("/v1/things", content=b"<x/>", headers={"content-type": "text/xml"})
    assert shape(answer) == (400, "CLUSTER_INVALID", True)


@pytest.mark.parametrize("size", [8 << 20, (8 << 20) + 1])
async def test_a_body_of_more_than_8_mib_is_413(probe: Probe, gateway: Gateway, size: int) -> None:
    """Said before the body is sent, as a client that waits for `100 Continue` does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    headers = [
        "POST /v1/things HTTP/1.1",
        "host: x",
        f"content-length: {size}",
        f"authorization: Bearer {probe_api.TOKEN}",
        f"anycloud-client-version: {probe_api.VERSION}",
        "content-type: application/json",
        "connection: close",
    ]
    writer.write("\r\n".join([*headers, "", ""]).encode())
    if size <= 8 << 20:
        writer.write(b" " * (size - 12) + b'{"name":"x"}')
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    if size <= 8 << 20:
        assert head.startswith(b"HTTP/1.1 202")
    else:
        assert head.startswith(b"HTTP/1.1 413")
        assert json.loads(body)["code"] == "PAYLOAD_TOO_LARGE"
        assert json.loads(body)["status"] == 413


async def test_headers_of_20_kib_reach_the_service(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/things/x", headers={"x-long": "a" * (20 << 10)})
    assert answer.status_code == 200


async def test_a_stream_that_fails_at_once_has_the_errors_status(probe: Probe, client: httpx.AsyncClient) -> None:
    assert shape(await client.get("/v1/thing-log?prefix=raise")) == (503, "API_RESTARTING", True)


async def test_a_service_that_is_away_is_restarting(gateway: Gateway, client: httpx.AsyncClient) -> None:
    async with gateway.serving():
        pass
    at_once = await client.get("/v1/things/x")
    assert (at_once.status_code, at_once.json()) == (503, RESTARTING)
    await gateway.health(503)
    later = await client.get("/v1/things/x")
    assert (later.status_code, later.json()) == (503, RESTARTING)
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await probe_api.stubs.ThingsStub(channel).GetThing(pb.GetThingRequest(name="x"), metadata=GRPC)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
    assert failed.value.details() == RESTARTING["message"]


async def test_what_grpc_itself_refuses_has_the_contracts_shape(gateway: Gateway, client: httpx.AsyncClient) -> None:
    """A server that is going down answers UNAVAILABLE without asking the interceptor; here one that always does."""
    server = grpc.aio.server()
    replies = {"GetThing": grpc.StatusCode.UNAVAILABLE, "ListThings": grpc.StatusCode.UNIMPLEMENTED}

    def refusing(code: grpc.StatusCode) -> Any:
        async def refuse(request: Any, context: Any) -> Any:
            await context.abort(code, "shutting down the socket")

        return grpc.unary_unary_rpc_method_handler(refuse)

    handlers = {name: refusing(code) for name, code in replies.items()}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("anycloudapi.probe.v1.Things", handlers)])
    gateway.runtime_dir.mkdir(mode=0o700, exist_ok=True)
    server.add_insecure_port(f"unix:{gateway.runtime_dir}/probe.sock")
    from grpc_health.v1 import health_pb2_grpc
    from grpc_health.v1._async import HealthServicer

    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), server)
    await server.start()
    try:
        await gateway.health(200)
        answer = await client.get("/v1/things/x")
        assert (answer.status_code, answer.json()) == (503, RESTARTING)
        assert shape(await client.get("/v1/things")) == (501, "UNIMPLEMENTED", False)
    finally:
        await server.stop(0)


# --- who may say what


async def test_a_caller_cannot_pose_as_envoy_or_as_a_sibling(probe: Probe, gateway: Gateway) -> None:
    spoofed = (
        ("x-envoy-original-path", "/v1/things/x"),
        ("x-envoy-original-method", "GET"),
        ("anycloud-caller", "deployment"),
        ("anycloud-principal", "u-0"),
        ("anycloud-request-id", "mine"),
        ("anycloud-build", "evil"),
        ("x-request-id", "mine"),
    )
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        stub = probe_api.stubs.ThingsStub(channel)
        thing = await stub.GetThing(pb.GetThingRequest(name="x"), metadata=(*GRPC, *spoofed))
    assert thing.note == "u-1"
    call = probe.things.calls[0]
    assert not call.rest
    assert call.request_id != "mine"
    assert not {key for key, _ in spoofed if key != "x-request-id"} & set(call.headers)


@pytest.mark.parametrize(
    "header",
    [
        "o'N`*~|: 7",
        "x-a-bin: !!!",
        "x-a-bin: AAA=",
        "grpc-timeout: 1n",
        "grpc-timeout: soon",
        "grpc-encoding: gzip",
        "grpc-accept-encoding: x",
        "grpc-status: 5",
        "grpc-message: %zz",
        "grpc-previous-rpc-attempts: x",
        "grpc-retry-pushback-ms: x",
        "grpc-internal-encoding-request: x",
        "lb-token: 1",
        "lb-cost-bin: AAAA",
        "endpoint-load-metrics-bin: AAAA",
        "te: gzip",
        "trailer: x",
        "x-latin: ü",
        "cookie: a=b; c",
        "x-envoy-upstream-rq-timeout-ms: 1",
        "x-forwarded-for: nonsense",
    ],
)
async def test_a_header_that_means_nothing_here_does_no_harm(probe: Probe, gateway: Gateway, header: str) -> None:
    """Each of these would be an error of the gRPC behind the gateway, if it got there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    token = f"authorization: Bearer {probe_api.TOKEN}"
    version = f"anycloud-client-version: {probe_api.VERSION}"
    lines = ["GET /v1/things/x HTTP/1.1", "host: x", token, version, header, "connection: close"]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 OK"), answer


async def test_grpc_clients_keep_their_deadline_and_compression(probe: Probe, gateway: Gateway) -> None:
    compressed = grpc.Compression.Gzip
    async with grpc.aio.insecure_channel(gateway.address, compression=compressed) as channel:
        stub = probe_api.stubs.ThingsStub(channel)
        name = "x" * 5000
        assert (await stub.GetThing(pb.GetThingRequest(name=name), metadata=GRPC)).name == name
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.GetThing(pb.GetThingRequest(name="hang"), metadata=GRPC, timeout=0.5)
    assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(probe.things.cancelled.wait(), 5)


async def test_an_http_caller_cannot_either(probe: Probe, client: httpx.AsyncClient) -> None:
    spoofed = {"anycloud-caller": "deployment", "anycloud-principal": "u-0", "x-envoy-upstream-rq-timeout-ms": "1"}
    await client.get("/v1/things/x", headers={**spoofed, "x-envoy-original-path": "/v1/evil"})
    headers = probe.things.calls[0].headers
    assert headers["x-envoy-original-path"] == "/v1/things/x"
    assert not set(spoofed) & set(headers)


async def test_internal_methods_cannot_be_reached(probe: Probe, gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await probe_api.internal_stubs.SiblingsStub(channel).Ask(Empty(), metadata=(("anycloud-caller", "x"),))
    assert failed.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_the_request_id_of_a_call_is_told_to_its_caller(probe: Probe, client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/things/x", headers={"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == probe.things.calls[0].request_id != "mine"


# --- native gRPC


async def test_grpc_clients_get_typed_errors(probe: Probe, gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await probe_api.stubs.ThingsStub(channel).GetThing(pb.GetThingRequest(name="raise-data"), metadata=GRPC)
    declared = errors.from_rpc(failed.value)
    assert declared is not None
    assert (failed.value.code(), declared.code) == (grpc.StatusCode.NOT_FOUND, "CREDENTIAL_NOT_FOUND")


async def test_a_grpc_message_that_is_too_large_exhausts_a_resource(probe: Probe, gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await probe_api.stubs.ThingsStub(channel).GetThing(pb.GetThingRequest(name="x" * (9 << 20)), metadata=GRPC)
    assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_grpc_clients_stream_both_ways(probe: Probe, gateway: Gateway) -> None:
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        stream = probe_api.stubs.WorkStub(channel).Talk(metadata=GRPC)
        for n in (1, 2):
            await stream.write(pb.NextRequest(wait_ms=n))
            assert (await stream.read()).thing.name == f"heard {n}"
        await stream.done_writing()


async def test_a_stream_may_carry_more_than_8_mib_in_all(probe: Probe, gateway: Gateway) -> None:
    unknown_field = b"\x7a\x80\x80\x40" + b"x" * (1 << 20)  # number 15, 1 MiB of bytes
    async with grpc.aio.insecure_channel(gateway.address) as channel:
        talk: Any = channel.stream_stream("/anycloudapi.probe.v1.Work/Talk")
        stream = talk(metadata=GRPC)
        for _ in range(10):
            await stream.write(unknown_field)
            assert pb.NextResponse.FromString(await stream.read()).thing.name == "heard 0"
        await stream.done_writing()


async def test_reflection_and_health_are_open(probe: Probe, gateway: Gateway) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    async with grpc.aio.insecure_channel(gateway.address) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        answers = [answer async for answer in stub.ServerReflectionInfo(iter(asked))]
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert "anycloudapi.cluster.v1.Clusters" in {s.name for s in answers[0].list_services_response.service}


# --- life


async def test_a_caller_that_leaves_cancels_the_handler(probe: Probe, client: httpx.AsyncClient) -> None:
    asking = asyncio.create_task(client.get("/v1/things/hang"))
    await probe.things.entered.wait()
    asking.cancel()
    await asyncio.wait_for(probe.things.cancelled.wait(), 5)


async def test_health_is_the_services_health(gateway: Gateway, client: httpx.AsyncClient) -> None:
    async with gateway.serving() as probe:
        answer = await client.get("/healthz", headers={"authorization": ""})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert probe.kit is not None
    await gateway.health(503)
    assert (await client.get("/healthz")).json() == {"status": "unavailable"}


async def test_a_service_that_comes_back_is_used_again(gateway: Gateway, client: httpx.AsyncClient) -> None:
    for _ in range(2):
        async with gateway.serving():
            assert (await client.get("/v1/things/x")).status_code == 200
        await gateway.health(503)


async def test_calls_are_logged_with_their_http_path_and_without_tokens(
    probe: Probe, gateway: Gateway, client: httpx.AsyncClient
) -> None:
    answer = await client.get("/v1/things/raise-declared")
    wanted = answer.headers["x-request-id"]
    async with asyncio.timeout(15):
        while wanted not in gateway.access_log.read_text():  # noqa: ASYNC110 - another process's file
            await asyncio.sleep(0.1)
    lines = [json.loads(line) for line in gateway.access_log.read_text().splitlines()]
    (line,) = [line for line in lines if line["request_id"] == wanted]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/things/raise-declared", 404)
    assert line["upstream"] == "probe"
    assert probe_api.TOKEN not in gateway.access_log.read_text()


async def test_the_admin_interface_is_its_owners_alone(gateway: Gateway) -> None:
    socket = gateway.directory / "admin.sock"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(socket))) as admin:
        assert (await admin.get("http://admin/ready")).text == "LIVE\n"


async def test_envoy_takes_the_bootstrap_of_the_whole_api(gateway: Gateway, tmp_path: Path) -> None:
    config = envoy_config(
        listen_host="0.0.0.0",
        listen_port=8080,
        runtime_dir=Path("/run/anycloud"),
        admin=9901,
        access_log=tmp_path / "access.log",
    )
    (tmp_path / "envoy.json").write_text(json.dumps(config))
    validate = [*command(tmp_path / "envoy.json"), "--mode", "validate"]
    process = await asyncio.create_subprocess_exec(*validate, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert process.returncode == 0, told
