"""`anycloud-sandbox`: the two processes, and faults."""

import asyncio
import json
import logging
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from anycloud_sandbox.faults import EFFECTS
from anycloud_sandbox.state import Pace

STATE = click.option("--state", required=True, type=click.Path(path_type=Path), help="Directory that holds the state.")
URL = click.option("--world", envvar="ANYCLOUD_SANDBOX_URL", required=True, help="URL of the world.")


@click.group()
def main() -> None:
    """A world for laptops and tests: clouds, DNS, GitHub, buckets, images, and Kubernetes on its machines."""
    logging.basicConfig(level=os.environ.get("ANYCLOUD_SANDBOX_LOG", "WARNING"), stream=sys.stderr)


@main.command()
@STATE
@click.option("--port", default=0, help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--delay", default=1.0, help="Factor on all waits, such as a machine's boot; 0 for none.")
@click.option("--lease-seconds", default=40.0, help="Age of a heartbeat at which a Node counts as lost.")
def serve(state: Path, port: int, delay: float, lease_seconds: float) -> None:
    """Serves the world; prints its URL once it answers."""
    from anycloud_sandbox.world.server import serve as serve_world

    _run(serve_world(state, port, Pace(delay, lease_seconds), click.echo))


@main.command()
@STATE
@URL
@click.option("--rotate-after", default=0.8, help="Share of a projected token's life after which it is replaced.")
def nodeagent(state: Path, world: str, rotate_after: float) -> None:
    """Runs the Nodes of all machines. SIGTERM is a power cut for their containers; SIGKILL leaves them to the next."""
    from anycloud_sandbox.agent.main import run

    _run(run(state, world.rstrip("/"), rotate_after))


@main.group()
def fault() -> None:
    """Injects, lists and removes faults."""


@fault.command()
@URL
@click.argument("effect", type=click.Choice(EFFECTS))
@click.argument("match", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--times", type=int, help="How often; without it until removed.")
@click.option("--seconds", type=float, default=1.0, help="For slow.")
@click.option("--message", help="Text of the error.")
def add(world: str, match: tuple[str, ...], **body: Any) -> None:
    """Adds a fault, such as `capacity area=cloud action=CreateMachine region=eu-* --times 2`; prints its id."""
    pairs = dict(item.partition("=")[::2] for item in match)
    click.echo(_call(world, "POST", "/faults", json.dumps({**body, "match": pairs}).encode())["id"])


@fault.command("list")
@URL
def list_(world: str) -> None:
    """Lists the faults in force, one a line."""
    for item in _call(world, "GET", "/faults")["faults"]:
        pairs = " ".join(f"{name}={value}" for name, value in item["match"].items())
        click.echo(f"{item['id']}  {item['effect']}  {pairs}  {item['times'] or 'until removed'}")


@fault.command()
@URL
@click.argument("fault_id")
def remove(world: str, fault_id: str) -> None:
    """Removes a fault."""
    _call(world, "DELETE", f"/faults/{fault_id}")


def _call(world: str, method: str, path: str, body: bytes | None = None) -> Any:
    try:
        request = urllib.request.Request(world + path, body, method=method)  # noqa: S310
        return json.load(urllib.request.urlopen(request, timeout=10))  # noqa: S310
    except urllib.error.HTTPError as error:
        raise click.ClickException(json.load(error)["message"]) from error
    except OSError as error:
        raise click.ClickException(f"the sandbox at {world} does not answer: {error}") from error


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Until it is done, or SIGTERM or SIGINT cancel it."""

    async def body() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await task

    try:
        asyncio.run(body())
    except asyncio.CancelledError:
        pass
    except OSError as error:  # the port or the state directory is in use, or the disk refuses
        raise click.ClickException(str(error)) from error
