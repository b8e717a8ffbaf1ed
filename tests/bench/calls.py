"""Requests a second and their times through Envoy, beside the same work behind two other doors.

Usage: python tests/bench/calls.py [seconds of a round] [rounds]

    anycloud       Envoy -> the product: token, codec, metrics
    transcoding    the same Envoy, its transcoder alone -> the same handlers on a bare grpc.aio server
    FastAPI        the same Envoy -> FastAPI and uvicorn, pydantic models, the same statements
    FastAPI alone  the same FastAPI without Envoy

All are of one run: at each number of connections they are measured in turn, several rounds, and a ratio is the median
of the rounds' own. Goals: 0.9 of `transcoding`, 0.5 of `FastAPI`. Load generator, Envoy and services share the machine.
`us` is CPU time per answer of the answering process and of Envoy; where a machine is busy with other things, the ratio
of both together (`by CPU`) says more than that of the answers.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from anycloud_common.settings import Settings

from tests.bench.doors import content, stack
from tests.bench.doors.stack import DOORS, Measured, Stack, measure

CONNECTIONS = (1, 16, 64)
GOALS = {"transcoding": 0.9, "FastAPI": 0.5}


class Case(NamedTuple):
    label: str
    verb: str
    path: str
    body: bytes = b""
    plain: tuple[str, bytes] | None = None
    """Path and body for `transcoding`, where its JSON is another."""

    def bytes(self, made: Stack, door: str) -> bytes:
        path, body = self.plain if self.plain and door == "transcoding" else (self.path, self.body)
        return made.request(door, self.verb, path, body)


HOME, TEN, HUNDRED = (f"dep-{number:012d}" for number in (1, 2, 3))
CASES = (
    Case("status", "GET", f"/v1/deployments/{HOME}"),
    Case(
        "list of 10",
        "GET",
        f"/v1/workloads?deploymentId={TEN}&limit=10",
        plain=(f"/v1/workloads?deployment_id={TEN}&limit=10", b""),
    ),
    Case(
        "list of 100",
        "GET",
        f"/v1/workloads?deploymentId={HUNDRED}&limit=100",
        plain=(f"/v1/workloads?deployment_id={HUNDRED}&limit=100", b""),
    ),
    Case(
        "submit",
        "POST",
        "/v1/workloads",
        f'{{"deployment":"{HOME}","workloadType":"job"}}'.encode(),
        plain=("/v1/workloads", f'{{"deploymentTarget":{{"deployment":"{HOME}"}}}}'.encode()),
    ),
)


async def fill(env: dict[str, str]) -> None:
    with content.opened(Settings.from_environment(env)) as (store, cipher):
        for number, jobs in ((1, 0), (2, 10), (3, 100)):
            await store.write(partial(content.add, cipher=cipher, number=number, jobs=jobs))


def rounds(made: Stack, case: Case, connections: int, seconds: float, count: int) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {door: [] for door in DOORS}
    for number in range(count):
        for door in DOORS if number % 2 else reversed(DOORS):  # whoever comes first is not always the same
            found[door].append(measure(made, door, case.bytes(made, door), connections, seconds))
    return found


def lines(label: str, connections: int, found: dict[str, list[Measured]]) -> Iterator[str]:
    ours = found[DOORS[0]]
    for door, theirs in found.items():
        middle = Measured(*(statistics.median(column) for column in zip(*theirs, strict=True)))
        ratio = statistics.median(a.rps / b.rps for a, b in zip(ours, theirs, strict=True))
        by_cpu = statistics.median(b.cpu_us / a.cpu_us for a, b in zip(ours, theirs, strict=True))
        goal = GOALS.get(door)
        verdict = "" if goal is None else f"  goal {goal}: {'met' if ratio >= goal else 'missed'}"
        yield (
            f"{label:12}{connections:>4}  {door:14}{middle.rps:>7.0f}/s  p50 {middle.p50_ms:>6.2f}  p99 "
            f"{middle.p99_ms:>6.2f} ms  us {middle.service_us:>5.0f} +{middle.envoy_us:>4.0f}"
            + (f"  {DOORS[0]} is {ratio:.2f} of it, {by_cpu:.2f} by CPU{verdict}" if door != DOORS[0] else "")
        )


def main(seconds: float = 1.0, count: int = 3) -> None:
    with tempfile.TemporaryDirectory(prefix="ac-") as scratch:
        env = stack.filled(Path(scratch) / "a")
        asyncio.run(fill(env))
        with stack.started(Path(scratch), env) as made:
            for case in CASES:
                for connections in CONNECTIONS:
                    found = rounds(made, case, connections, seconds, count)
                    print("\n".join(lines(case.label, connections, found)), flush=True)


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((float, int), sys.argv[1:], strict=False)))
