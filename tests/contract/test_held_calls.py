"""Calls that wait for something: for as long as they ask, and many at a time."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.contract import wire
from tests.contract.world import Api, Timed, World

MANY = 500


@pytest.mark.parametrize(
    ("name", "status", "content"),
    [
        ("candidate", 204, None),
        ("cancellation", 200, {"cancelled": False}),
        (
            "observation",
            200,
            {"outcome": "pending", "claimed": False, "submissionRevision": 0, "claimDeadlineAt": None},
        ),
    ],
)
def test_a_call_is_held_for_twenty_seconds_and_then_says_nothing_yet(
    held: dict[str, Future[Timed]], name: str, status: int, content: dict[str, Any] | None
) -> None:
    answer, seconds = held[name].result(40)
    wire.check_form(answer)
    assert answer.status_code == status, answer.text
    assert (answer.json() if answer.content else None) == content
    assert 19.9 < seconds < 25


@pytest.mark.parametrize("kind", ["observations", "candidates"])
async def test_five_hundred_waiting_calls_do_not_keep_anybody_else_waiting(
    world: World, served: dict[str, Any], parked: dict[str, Any], kind: str
) -> None:
    job = world.hosted.ask("POST", "/workloads", {"deployment": parked["id"]})["id"]
    before = resident(world)
    if kind == "observations":
        body = b'{"submissionRevision": 0, "waitMs": 20000}'
        calls = [held_call(world.hosted, f"POST /v1/workloads/{job}/claim-observation", body) for _ in range(MANY)]
    else:
        line = f"GET /v1/deployments/{served['id']}/jobs/candidate?waitMs=8000"
        calls = [held_call(world.worker(served), line, b"") for _ in range(MANY)]
    waiting = [asyncio.create_task(one) for one in calls]
    await asyncio.sleep(2)
    assert not any(one.done() for one in waiting)
    grown = {name: resident(world)[name] - size for name, size in before.items()}
    print(f"{MANY} held {kind}: " + ", ".join(f"{name} +{size >> 20} MiB" for name, size in grown.items()))
    assert max(grown.values()) < 200 << 20
    began = time.monotonic()
    world.hosted.ask("GET", f"/workloads/{job}")
    assert time.monotonic() - began < 2
    world.hosted.ask("DELETE", f"/workloads/{job}")  # ends the observations at once
    answers = await asyncio.wait_for(asyncio.gather(*waiting), 40)
    expected = (200, "terminated") if kind == "observations" else (204, None)
    assert {(status, content and content["outcome"]) for status, content in answers} == {expected}


def resident(world: World) -> dict[str, int]:
    """Bytes of memory of the processes that hold a call."""
    found = {}
    for name in ("hosted/envoy", "hosted/deployment"):
        process = world.installation.process(name)
        assert process
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        found[name] = pages * os.sysconf("SC_PAGE_SIZE")
    return found


async def held_call(api: Api, line: str, body: bytes) -> tuple[int, Any]:
    """One call on a connection of its own; by hand, as a client library would be what is measured."""
    url = httpx.URL(api.url)
    headers = {**api.headers, "host": url.netloc.decode(), "content-length": str(len(body))}
    lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write("\r\n".join(lines).encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    lengths = [int(one[15:]) for one in head if one.startswith(b"content-length:")]
    content = await reader.readexactly(lengths[0]) if lengths else b""
    writer.close()
    return int(head[0].split()[1]), json.loads(content) if content else None


@pytest.mark.parametrize("leaving", ["FIN", "RST", "half"])
def test_a_held_call_whose_caller_leaves_is_let_go_and_its_job_is_offered_once(
    world: World, served: dict[str, Any], unique: Callable[[str], str], leaving: str
) -> None:
    """Many callers wait and leave; then a Job comes, and a single one of those who stayed has it."""
    container, home = world.worker(served), served["id"]
    path = f"/deployments/{home}/jobs/candidate?waitMs=8000"
    sockets = [begun(container, f"GET /v1{path}") for _ in range(5)]
    with ThreadPoolExecutor(2) as threads:
        staying = [threads.submit(container.call, "GET", path) for _ in range(2)]
        time.sleep(0.5)  # so that all are held
        for one in sockets:
            leave(one, leaving)
        job = unique("job")
        world.hosted.ask("POST", "/workloads", {"deployment": home, "id": job})
        answers = [one.result(30) for one in staying]
    offered = [answer.json()["jobId"] for answer in answers if answer.status_code == 200]
    if leaving != "half":  # somebody who can still be answered may have been offered the Job
        assert offered[:1] == [job]
    taken = {"submissionRevision": 0, "previousExecutionId": None}
    keys = [str(uuid4()) for _ in range(3)]
    claims = [
        container.call("POST", f"/deployments/{home}/jobs/{job}/claim", taken, **{"idempotency-key": key})
        for key in keys
    ]
    assert [claim.status_code for claim in claims] == [200, 409, 409]
    for name, body in (
        ("outcome", {"executionId": keys[0], "outcome": "completed"}),
        ("cleanup", {"executionId": keys[0]}),
    ):
        container.ask("POST", f"/deployments/{home}/jobs/{job}/{name}", body)
    for one in sockets:
        one.close()


def begun(api: Api, line: str) -> socket.socket:
    """A call that nobody reads the answer of yet."""
    url = httpx.URL(api.url)
    made = socket.create_connection((url.host, url.port), timeout=20)
    headers = {"host": url.netloc.decode(), **api.headers}
    made.sendall("\r\n".join([f"{line} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]).encode())
    return made


def leave(one: socket.socket, how: str) -> None:
    if how == "half":
        one.shutdown(socket.SHUT_WR)
        return
    if how == "RST":
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
