"""`anycloud-sandbox`: the two processes, and faults."""

from __future__ import annotations

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
from anycloud_sandbox.pace import Pace
from anycloud_sandbox.state import StateInUse

STATE = click.option("--state", required=True, type=click.Path(path_type=Path), help="Directory that holds the state.")


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

    def ready(actual: int) -> None:
        click.echo(f"http://127.0.0.1:{actual}")

    try:
        _run(serve_world(state, "127.0.0.1", port, Pace(delay, lease_seconds), ready))
    except (StateInUse, OSError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@STATE
@click.option("--world", required=True, help="URL of the world.")
@click.option("--rotate-after", default=0.8, help="Share of a projected token's life after which it is replaced.")
def nodeagent(state: Path, world: str, rotate_after: float) -> None:
    """Runs the Nodes of all machines. SIGTERM is a power cut for their containers; SIGKILL leaves them to the next."""
    from anycloud_sandbox.agent.main import run as run_agent

    _run(run_agent(state, world.rstrip("/"), rotate_after))


@main.group()
@click.option("--world", envvar="ANYCLOUD_SANDBOX_URL", required=True, help="URL of the world.")
@click.pass_context
def fault(context: click.Context, world: str) -> None:
    """Injects, lists and removes faults."""
    context.obj = world.rstrip("/")


@fault.command()
@click.argument("effect", type=click.Choice(sorted(EFFECTS)))
@click.argument("match", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--times", type=int, help="How often; without it until removed.")
@click.option("--seconds", type=float, default=1.0, help="For slow.")
@click.option("--message", help="Text of the error.")
@click.pass_obj
def add(world: str, effect: str, match: tuple[str, ...], times: int | None, seconds: float, message: str) -> None:
    """Adds a fault: for example `capacity area=cloud action=CreateMachine region=eu-west-1 --times 2`."""
    pairs = [item.partition("=") for item in match]
    if any(not sign for _, sign, _ in pairs):
        raise click.UsageError("each match is written FIELD=VALUE")
    fields = {name: value for name, _, value in pairs}
    body = {"effect": effect, "match": fields, "times": times, "seconds": seconds, "message": message}
    click.echo(_call(world, "POST", "/faults", body)["id"])


@fault.command("list")
@click.pass_obj
def list_(world: str) -> None:
    """Lists the faults in force, one a line."""
    for item in _call(world, "GET", "/faults")["faults"]:
        match = " ".join(f"{name}={value}" for name, value in item["match"].items())
        click.echo(f"{item['id']}  {item['effect']}  {match}  {item['times'] or 'until removed'}")


@fault.command()
@click.argument("fault_id")
@click.pass_obj
def remove(world: str, fault_id: str) -> None:
    """Removes a fault."""
    _call(world, "DELETE", f"/faults/{fault_id}")


def _call(world: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(world + path, data, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        raise click.ClickException(json.load(error)["message"]) from error
    except OSError as error:
        raise click.ClickException(f"the sandbox at {world} does not answer: {error}") from error


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Runs until done or until SIGTERM or SIGINT cancel it, with its own clean-up."""

    async def body() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return

    asyncio.run(body())
