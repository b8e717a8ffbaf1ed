"""`anycloud-sandbox`: the two processes, and faults."""

import asyncio
import json
import logging
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from anycloud_sandbox.state import EFFECTS, Pace

STATE = click.option("--state", required=True, type=click.Path(path_type=Path), help="Directory that holds the state.")
URL = click.option("--world", envvar="ANYCLOUD_SANDBOX_URL", required=True, help="URL of the world.")

ASSETS_HELP = "Folder of Kubernetes' own programs: machines run them as their control planes. May be given again."


@click.group()
def main() -> None:
    """A world for laptops and tests: clouds, DNS, GitHub, buckets, images, and Kubernetes on its machines."""
    logging.basicConfig(level=os.environ.get("ANYCLOUD_SANDBOX_LOG", "WARNING"))


@main.command()
@STATE
@click.option("--port", default=0, help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--delay", default=1.0, help="Factor on all waits, such as a machine's boot; 0 for none.")
@click.option("--lease-seconds", default=40.0, help="Age of a heartbeat at which a Node counts as lost.")
@click.option("--kube-assets", "assets", multiple=True, type=click.Path(path_type=Path), help=ASSETS_HELP)
def serve(state: Path, port: int, delay: float, lease_seconds: float, assets: tuple[Path, ...]) -> None:
    """Serves the world; prints its URL once it answers."""
    from anycloud_sandbox.world.server import serve as serve_world

    _run(serve_world(state, port, Pace(delay, lease_seconds), click.echo, assets))


@main.command()
@STATE
@URL
@click.option("--rotate-after", default=0.8, help="Share of a projected token's life after which it is replaced.")
def nodeagent(state: Path, world: str, rotate_after: float) -> None:
    """Runs the Nodes of all machines. SIGTERM is a power cut for their containers; SIGKILL leaves them to the next."""
    from anycloud_sandbox.agent.main import Agent

    async def run() -> None:
        await Agent(state, world.rstrip("/"), rotate_after).run()

    _run(run())


@main.command(epilog=f"Effects: {', '.join(EFFECTS)}.")
@URL
@click.argument("action", type=click.Choice(("add", "list", "remove")))
@click.argument("words", nargs=-1, metavar="[EFFECT [FIELD=VALUE]... | FAULT]")
@click.option("--times", type=int, help="How often an added fault hits; without it until removed.")
@click.option("--seconds", type=float, default=1.0, help="How slow a slow call gets.")
def fault(world: str, action: str, words: tuple[str, ...], times: int | None, seconds: float) -> None:
    """Injects, lists and removes faults: `fault add capacity action=CreateMachine region=eu-* --times 2`."""
    if action == "add":
        match = dict(word.partition("=")[::2] for word in words[1:])
        body = {"effect": "".join(words[:1]), "match": match, "times": times, "seconds": seconds}
        click.echo(_call(world, "POST", "/faults", json.dumps(body).encode())["id"])
    elif action == "remove":
        _call(world, "DELETE", "/faults/" + "".join(words))
    else:
        for item in _call(world, "GET", "/faults")["faults"]:
            pairs = " ".join(f"{name}={value}" for name, value in item["match"].items())
            click.echo(f"{item['id']}  {item['effect']}  {pairs}  {item['times'] or 'until removed'}")


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
        if (await asyncio.wait([task])) and not task.cancelled():
            task.result()

    try:
        asyncio.run(body())
    except OSError as error:  # the port or the state directory is in use, or the disk refuses
        raise click.ClickException(str(error)) from error
