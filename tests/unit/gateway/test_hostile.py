"""Clients that send slowly, or what is hardly HTTP, in front of the real Envoy."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anycloud_gateway import config, routes

from tests.unit.gateway.conftest import Gateway, started
from tests.unit.server import probe_api
from tests.unit.server.probe_api import Probe

pytestmark = pytest.mark.asyncio(loop_scope="function")
HEADERS = [
    "host: x",
    f"authorization: Bearer {probe_api.TOKEN}",
    f"anycloud-client-version: {probe_api.VERSION}",
]


@pytest.fixture(scope="module")
def hasty(descriptors: Path) -> Iterator[Gateway]:
    """A gateway that waits for nobody for long."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="ac-") as made:
        patch.setattr(config, "HEADERS_WITHIN", 1)
        patch.setattr(routes, "WHOLE", 2)
        with started(Path(made), descriptors) as gateway:
            yield gateway


@pytest.fixture
async def behind_hasty(hasty: Gateway) -> AsyncIterator[Probe]:
    async with hasty.serving() as made:
        yield made


async def answer_to(gateway: Gateway, *parts: bytes, pause: float = 0.0) -> tuple[int, dict[str, Any], list[str]]:
    """Status, body and header names of the answer to these bytes; there is `pause` between the parts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    sending = asyncio.create_task(send(writer, parts, pause))
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    lines = head.decode().splitlines()
    length = next(int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:"))
    body = await asyncio.wait_for(reader.readexactly(length), 20)
    sending.cancel()
    writer.close()
    return int(lines[0].split()[1]), json.loads(body), [line.partition(":")[0].lower() for line in lines[1:]]


async def send(writer: asyncio.StreamWriter, parts: tuple[bytes, ...], pause: float) -> None:
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause)


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, *HEADERS, *headers, "", ""]).encode()


def check_refused(told: tuple[int, dict[str, Any], list[str]], status: int, code: str, says: str) -> None:
    """In the one form of all errors, and not by the service."""
    found, body, names = told
    assert found == body["status"] == status, body
    assert (body["code"], body["defined"], set(body)) == (code, False, {"code", "defined", "message", "status"})
    assert says in body["message"], body
    assert not [name for name in names if name.startswith("grpc-")]


@pytest.mark.parametrize(
    ("line", "headers", "status", "code", "says"),
    [
        ("GET /v1/things/a%00b HTTP/1.1", (), 400, "BAD_REQUEST", "url"),
        ("GET /v1/things#x HTTP/1.1", (), 400, "BAD_REQUEST", "url"),
        ("GET /v1/things/ HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        ("GET /v1/things/?prefix=a HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        ("GET /v1/things/x/ HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        ("DELETE /v1/things/x/.. HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        ("GET /v1/things?=x HTTP/1.1", (), 400, "BAD_REQUEST", "no name"),
        ("GET /v1/things?prefix=a&=null HTTP/1.1", (), 400, "BAD_REQUEST", "no name"),
        ("GET //v1/things HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        ("GET /v1//things HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        ("GET /v1/things HTTP/1.0", (), 426, "BAD_REQUEST", "HTTP/1.1"),
        ("GET /v1/things HTTP/3", (), 400, "BAD_REQUEST", "no valid HTTP"),
        ("HELO /v1/things HTTP/1.1", (), 400, "BAD_REQUEST", "no valid HTTP"),
        ("CONNECT /v1/things HTTP/1.1", (), 400, "BAD_REQUEST", "no valid HTTP"),
        ("GET /v1/things HTTP/1.1", ("x-a: \0",), 400, "BAD_REQUEST", "no valid HTTP"),
        ("GET /v1/things HTTP/1.1", ("x-a",), 400, "BAD_REQUEST", "no valid HTTP"),
        ("GET /v1/things HTTP/1.1", ("x-a : b",), 400, "BAD_REQUEST", "no valid HTTP"),
        ("GET /v1/things HTTP/1.1", (": b",), 400, "BAD_REQUEST", "no valid HTTP"),
        ("GET /v1/things HTTP/1.1", ("x-a: " + "a" * (25 << 10),), 431, "HEADERS_TOO_LARGE", "24 KiB"),
        ("GET /v1/" + "a" * (25 << 10) + " HTTP/1.1", (), 431, "HEADERS_TOO_LARGE", "24 KiB"),
        ("GET /v1/things HTTP/1.1", ("a: b",) * 101, 431, "HEADERS_TOO_LARGE", "100"),
        ("GET /v1/things HTTP/1.1", ("upgrade: websocket", "connection: upgrade"), 400, "BAD_REQUEST", "upgrade"),
        ("POST /v1/things HTTP/1.1", ("content-length: 2", "content-length: 3"), 400, "BAD_REQUEST", "no valid HTTP"),
        ("POST /v1/things HTTP/1.1", ("content-length: -1",), 400, "BAD_REQUEST", "no valid HTTP"),
        ("POST /v1/things HTTP/1.1", ("content-length: 1e1",), 400, "BAD_REQUEST", "no valid HTTP"),
        (
            "POST /v1/things HTTP/1.1",
            ("content-length: 2", "transfer-encoding: chunked"),
            400,
            "BAD_REQUEST",
            "content_length_and_chunked",
        ),
        ("POST /v1/things HTTP/1.1", ("transfer-encoding: gzip, chunked",), 400, "BAD_REQUEST", "transfer-encoding"),
        ("POST /v1/things HTTP/1.1", ("content-encoding: gzip",), 415, "UNSUPPORTED_MEDIA_TYPE", "content-encoding"),
        ("POST /anycloudapi.probe.v1.Things/ListThings HTTP/1.1", (), 404, "NOT_FOUND", "no such operation"),
        (
            "POST /anycloudapi.probe.v1.Things/ListThings HTTP/1.1",
            ("content-type: application/grpc-web+proto",),
            404,
            "NOT_FOUND",
            "no such operation",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_what_is_hardly_http_is_refused_in_the_one_form(
    probe: Probe, gateway: Gateway, line: str, headers: tuple[str, ...], status: int, code: str, says: str
) -> None:
    told = await answer_to(gateway, head(line, *headers))
    check_refused(told, status, code, says)
    assert probe.things.calls == []


async def test_a_host_is_required(probe: Probe, gateway: Gateway) -> None:
    told = await answer_to(gateway, b"GET /v1/things HTTP/1.1\r\n\r\n")
    check_refused(told, 400, "BAD_REQUEST", "host")


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0\1\2\xff\r\n\r\n"])
async def test_another_protocol_is_refused(probe: Probe, gateway: Gateway, sent: bytes) -> None:
    check_refused(await answer_to(gateway, sent), 400, "BAD_REQUEST", "no valid HTTP")


async def test_requests_in_a_row_are_answered_in_their_order(probe: Probe, gateway: Gateway) -> None:
    """Without waiting for the answer to the first."""
    lines = ["GET /v1/things/a HTTP/1.1", "GET /v1/things/b HTTP/1.1", "GET /v1/nothing HTTP/1.1"]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"".join(head(line, *(["connection: close"] * (line == lines[-1]))) for line in lines))
    told = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    places = [told.index(part) for part in (b'"name":"a"', b'"name":"b"', b"NOT_FOUND")]
    assert places == sorted(places)
    assert told.count(b"HTTP/1.1 ") == 3


async def test_a_body_that_comes_slowly_is_taken(probe: Probe, gateway: Gateway) -> None:
    body = b'{"name": "slow"}'
    pieces = [body[at : at + 4] for at in range(0, len(body), 4)]
    request = head("POST /v1/things HTTP/1.1", "content-type: application/json", f"content-length: {len(body)}")
    status, answer, _ = await answer_to(gateway, request, *pieces, pause=0.1)
    assert (status, answer["thing"]["name"]) == (202, "slow")


async def test_headers_that_do_not_come_are_not_waited_for(behind_hasty: Probe, hasty: Gateway) -> None:
    began = time.monotonic()
    drops = [f"x-{number}: a\r\n".encode() for number in range(90)]
    told = await answer_to(hasty, b"GET /v1/things/a HTTP/1.1\r\n", *drops, pause=0.2)
    check_refused(told, 408, "REQUEST_TIMEOUT", "in time")
    assert time.monotonic() - began < 15
    assert behind_hasty.things.calls == []


async def test_a_body_that_does_not_come_is_not_waited_for(behind_hasty: Probe, hasty: Gateway) -> None:
    request = head("POST /v1/things HTTP/1.1", "content-type: application/json", "content-length: 5000")
    told = await answer_to(hasty, request, *[b" "] * 200, pause=0.1)
    check_refused(told, 408, "REQUEST_TIMEOUT", "in time")
    assert behind_hasty.things.calls == []


async def test_a_stream_is_not_cut_by_the_time_that_a_call_has(behind_hasty: Probe, hasty: Gateway) -> None:
    async with hasty.client() as client, client.stream("GET", "/v1/thing-log?prefix=hold") as answer:
        lines = answer.aiter_lines()
        assert json.loads(await anext(lines))["name"] == "first"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(lines), 3)


async def test_many_slow_clients_keep_nobody_waiting(behind_hasty: Probe, hasty: Gateway) -> None:
    slow = [await asyncio.open_connection("127.0.0.1", hasty.port) for _ in range(200)]
    for _, writer in slow:
        writer.write(b"POST /v1/things HTTP/1.1\r\nhost: x\r\n")
    async with hasty.client() as client:
        assert (await client.get("/v1/things/x")).status_code == 200
    for _, writer in slow:
        writer.close()
