"""What one local installation (four services and Envoy) costs: start, memory, and a list by 16 clients at once.

Baselines of the same run: a Python process that only imports grpc and SQLAlchemy (start, memory), and Envoy's own
`/healthz`, asked by the same clients (requests). Goals: warm start 3 s, 350 MiB, 1,000 requests/s.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.installation import SERVICES, Installation

CLIENTS = 16
SECONDS = 5.0
BARE = "import grpc.aio, sqlalchemy, sys; print(); sys.stdin.read()"


def pss_mib(pid: int) -> float:
    """Proportional set size: shared pages counted by share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def bare() -> tuple[float, float]:
    """Seconds until a bare process has its imports, and its MiB."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    seconds, mib = time.perf_counter() - started, pss_mib(process.pid)
    process.communicate()
    return seconds, mib


def started(installation: Installation) -> float:
    begun = time.perf_counter()
    installation.start()
    return time.perf_counter() - begun


async def client(port: int, request: bytes, until: float) -> int:
    """How many answers one connection got. An answer that isn't 200 ends the bench."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = 0
    while time.perf_counter() < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        answers += 1
    writer.close()
    return answers


async def rate(port: int, path: str, token: str) -> float:
    """Answers a second for CLIENTS connections."""
    headers = f"host: x\r\nauthorization: Bearer {token}\r\nanycloud-client-version: 0.1.70\r\n"
    request = f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode()
    until = time.perf_counter() + SECONDS
    return sum(await asyncio.gather(*(client(port, request, until) for _ in range(CLIENTS)))) / SECONDS


def main() -> None:
    bare_seconds, bare_mib = bare()
    with tempfile.TemporaryDirectory() as scratch, Installation(Path(scratch) / "anycloud") as installation:
        cold = started(installation)
        installation.cli("api", "stop")
        warm = started(installation)
        names = (*SERVICES, "envoy")
        sizes = {p["name"]: pss_mib(p["pid"]) for p in installation.state()["processes"] if p["name"] in names}
        token = (installation.directory / "local-api-token").read_text().strip()
        empty = asyncio.run(rate(installation.port, "/healthz", token))
        listed = asyncio.run(rate(installation.port, "/v1/credentials", token))
    total = sum(sizes.values())
    print(f"bare Python with grpc and SQLAlchemy: {bare_seconds:.2f} s, {bare_mib:.0f} MiB")
    print(f"cold start {cold:.1f} s ({cold / bare_seconds:.1f}x), warm {warm:.1f} s ({warm / bare_seconds:.1f}x)")
    print(
        f"memory (PSS) {total:.0f} MiB ({total / bare_mib:.1f}x): {', '.join(f'{n} {s:.0f}' for n, s in sizes.items())}"
    )
    print(f"{CLIENTS} clients: list {listed:.0f}/s, Envoy's own answer {empty:.0f}/s ({listed / empty:.2f})")


if __name__ == "__main__":
    main()
