"""Calls that wait for something: for as long as they ask, and many at a time."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import Future
from typing import Any

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


async def test_five_hundred_waiting_calls_do_not_keep_anybody_else_waiting(
    world: World, parked: dict[str, Any]
) -> None:
    job = world.hosted.ask("POST", "/workloads", {"deployment": parked["id"]})["id"]
    waiting = [asyncio.create_task(observe(world.hosted, job)) for _ in range(MANY)]
    await asyncio.sleep(2)
    assert not any(one.done() for one in waiting)
    began = time.monotonic()
    world.hosted.ask("GET", f"/workloads/{job}")
    assert time.monotonic() - began < 2
    world.hosted.ask("DELETE", f"/workloads/{job}")  # ends them all
    answers = await asyncio.wait_for(asyncio.gather(*waiting), 15)
    assert {answer["outcome"] for answer in answers} == {"terminated"}


async def observe(api: Api, job: str) -> Any:
    """One observation on a connection of its own; by hand, as a client library would be what is measured."""
    body = b'{"submissionRevision": 0, "waitMs": 20000}'
    url = httpx.URL(api.url)
    headers = {**api.headers, "host": url.netloc.decode(), "content-length": str(len(body))}
    lines = [f"POST /v1/workloads/{job}/claim-observation HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write("\r\n".join(lines).encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    answer = json.loads(await reader.readexactly(length))
    writer.close()
    return answer
