"""What our reconcilers cost the API server and how soon they know: on the sandbox's and on the real one.

    kube.py [sandbox|real] [DEPLOYMENTS…]      both, with 1, 50 and 500, unless it says otherwise

cluster, nodepool and deployment run in this process as a hosted API has them, through a door that counts requests; on
the real server its audit log has the last word. Kubelets are made by hand: they report a Pod as ready at once, so
what is measured is our own part, and the controllers' and scheduler's.

Requests while idle are counted for 20 s, when nothing was asked for 5 s before, and given for a minute. Each watch is
renewed every 4 to 5 minutes, whatever the number of Deployments; those renewals are named beside. Goal: idle doesn't
grow with the number of Deployments.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from anycloud_deployment.live.world import World

from tests.kube.assets.location import MissingPrograms
from tests.kube.product import Product, running
from tests.kube.servers import PRODUCT, KubernetesServer, SandboxServer, Server

COUNTS = (1, 50, 500)
ROUNDS = 15
QUIET_S, IDLE_S = 5.0, 20.0
SERVERS: dict[str, Callable[[Path], Server]] = {"sandbox": SandboxServer, "real": KubernetesServer}
ACCOUNT = f"system:serviceaccount:{PRODUCT}:{PRODUCT}"


class Sight:
    """When the product's watches told that a Pod was gone, by its UID."""

    def __init__(self) -> None:
        self.gone: dict[str, float] = {}
        told = World._forget

        def forget(world: World, obj: object) -> None:
            self.gone[obj["metadata"]["uid"]] = time.perf_counter()  # type: ignore[index]
            told(world, obj)  # type: ignore[arg-type]

        World._forget = forget  # type: ignore[method-assign, assignment]


async def until(holds: Callable[[], Awaitable[bool] | bool], seconds: float = 900) -> None:
    deadline = time.monotonic() + seconds
    while True:
        answer = holds()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def apply_to_ready(product: Product, number: int) -> tuple[str, float]:
    """A Deployment, and the seconds from our first request for it until the API says that it is ready."""
    made = await product.deploy("bench", f"round-{number}")

    async def ready() -> bool:
        return bool((await product.deployment(made)).status.container_ready)

    await until(ready)
    applied = next(call.at for call in product.door.calls if call.is_a("create", "deployments") and call.name == made)
    return made, asyncio.get_running_loop().time() - applied


async def gone_to_noticed(product: Product, sight: Sight, made: str) -> float:
    """Seconds from the moment at which the server has no such Pod any more."""
    (pod,) = product.kubelets.pods(made)
    uid = pod["metadata"]["uid"]
    product.kubelets.silent.add(pod["spec"]["nodeName"])
    await product.kubelets.end(pod)
    gone = time.perf_counter()
    product.kubelets.silent.clear()
    await until(lambda: uid in sight.gone)
    return max(sight.gone[uid] - gone, 0.0)


async def delays(product: Product, sight: Sight) -> None:
    ready, noticed = [], []
    for number in range(ROUNDS):
        made, seconds = await apply_to_ready(product, number)
        ready.append(seconds)
        noticed.append(await gone_to_noticed(product, sight, made))
        await product.undeploy(made)
        await product.gone(made)
    for name, times in (("Deployment applied -> Pod ready", ready), ("Pod gone -> noticed", noticed)):
        print(f"  {name:34} median {statistics.median(times) * 1000:6.1f} ms, slowest {max(times) * 1000:6.1f} ms")


async def requests(product: Product, server: Server, count: int, had: int) -> None:
    """Brings the Deployments up to `count`, and then does nothing."""
    began, first = time.monotonic(), len(product.door.calls)
    for number in range(had, count):
        await product.deploy("bench", f"many-{number}")
    mine = product.deployment_ids[-count:]
    await until(lambda: all(up(product, made) for made in mine))
    seconds = time.monotonic() - began
    written = [call for call in product.door.calls[first:] if call.verb != "watch"]
    await until(partial(quiet, product))
    start, before = datetime.now(UTC), len(product.door.calls)
    await asyncio.sleep(IDLE_S)
    idle = Counter(f"{call.verb} {call.resource}" for call in product.door.calls[before:])
    each, rate, minutely = len(written) / max(count - had, 1), len(written) / seconds, 60 / IDLE_S
    line = f"  {count:4} Deployments: {len(written):5} requests to come up ({each:.1f} each, {rate:.0f}/s)"
    line += f", idle {sum(idle.values()) * minutely:.0f} a minute"
    line += f", by the audit log {audited(server, start) * minutely:.0f}" if server.name == "kubernetes" else ""
    print(line + (f" ({', '.join(f'{n} {name}' for name, n in idle.items())})" if idle else ""), flush=True)


def up(product: Product, made: str) -> bool:
    return any((pod.get("status") or {}).get("phase") == "Running" for pod in product.kubelets.pods(made))


async def quiet(product: Product) -> bool:
    """Whether nothing was asked for a while."""
    before = len(product.door.calls)
    await asyncio.sleep(QUIET_S)
    return len(product.door.calls) == before


def audited(server: Server, since: datetime) -> int:
    """Requests of the product's account that the API server itself has logged since then."""
    assert isinstance(server, KubernetesServer)
    mine = [event for event in server.plane.requests() if event["user"].get("username") == ACCOUNT]
    fresh = [event for event in mine if datetime.fromisoformat(event["requestReceivedTimestamp"]) >= since]
    return len({event["auditID"] for event in fresh})


async def measure(server: Server, scratch: Path, counts: list[int]) -> None:
    sight = Sight()
    async with running(server, scratch / "product") as product:
        await product.running_pool("bench")
        await delays(product, sight)
        had = 0
        for count in counts:
            await requests(product, server, count, had)
            had = count
        watches = sum(call.verb == "watch" for call in product.door.calls)
        print(f"  {watches} watches, each renewed every 4 to 5 minutes: {watches / 4.5:.1f} requests a minute")


def main() -> None:
    words = sys.argv[1:]
    counts = [int(word) for word in words if word.isdecimal()] or list(COUNTS)
    chosen = [word for word in words if word in SERVERS] or list(SERVERS)
    for name, start in ((name, SERVERS[name]) for name in chosen):
        with tempfile.TemporaryDirectory() as scratch:
            began = time.monotonic()
            try:
                server: Server = start(Path(scratch) / "server")
            except MissingPrograms as absent:
                print(f"{name}: {absent}")
                continue
            print(f"{name}: started in {time.monotonic() - began:.1f} s", flush=True)
            try:
                asyncio.run(measure(server, Path(scratch), counts))
            finally:
                server.stop()


if __name__ == "__main__":
    main()
