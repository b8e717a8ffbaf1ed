"""The world outside as two more processes, for an installation on one machine without clouds."""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path

from anycloud_common.settings import API_VERSION

from anycloud_supervisor import files
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.plan import Action, ProcessSpec, Step
from anycloud_supervisor.probes import http, http_ok
from anycloud_supervisor.services import python

API_IMAGE = f"ghcr.io/anycloud-sh/api:{API_VERSION}"
# The sandbox plays the chart itself, so there are no bytes to hash: its name and version stand for them.
CHART_DIGEST = f"sha256:{hashlib.sha256(f'anycloud-api-{API_VERSION}'.encode()).hexdigest()}"
SIGN_IN = "ghs_sandbox_demo"
_LOWEST, _HIGHEST = 20000, 32767  # below the ports that the system gives to outgoing connections


def world_url(directory: Path) -> str:
    """The world's address, the same at each start: hosted APIs and machines keep it for good. Raises OSError."""
    path = directory / "port"
    kept = files.read(path)
    if kept is None:
        kept = str(free_port())
        files.write(path, kept)
    return f"http://127.0.0.1:{int(kept)}"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has now. Raises SupervisorError."""
    for port in random.sample(range(_LOWEST, _HIGHEST), 50):
        if port_is_free(port):
            return port
    raise SupervisorError(f"No free port between {_LOWEST} and {_HIGHEST} was found.")


def port_is_free(port: int) -> bool:
    """Whether somebody could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def sandbox_steps(directory: Path, url: str, env: Mapping[str, str]) -> list[Step]:
    """The world, then the agent of its Nodes. SIGTERM is a power cut for the agent's containers: they end with it."""
    world, agent = directory / "world", directory / "agent"
    port = url.rpartition(":")[2]
    serve = python("anycloud_sandbox", "serve", "--state", str(world), "--port", port)
    nodeagent = python("anycloud_sandbox", "nodeagent", "--state", str(agent), "--world", url)
    return [
        Step([ProcessSpec("sandbox", serve, env, http_ok(f"{url}/faults"))], then=_register_api_image(url)),
        Step([ProcessSpec("nodeagent", nodeagent, env, _running)]),
    ]


async def _running() -> bool:
    return True


def _register_api_image(url: str) -> Action:
    """Makes the hosted API's image known: this very program, in hosted mode."""

    async def register() -> None:
        manifest = {
            "accelerator": "none",
            "env": {},
            "command": [sys.executable, "-m", "anycloud_supervisor", "hosted"],
            "labels": {"sh.anycloud.api.version": API_VERSION, "sh.anycloud.api.chart-digest": CHART_DIGEST},
        }
        try:
            answer = await http("POST", f"{url}/registry/images", {"reference": API_IMAGE, "manifest": manifest})
        except (OSError, HTTPException) as error:
            raise SupervisorError("The sandbox ended while it was told of the API's image.") from error
        if answer.status != 200:
            raise SupervisorError(f"The sandbox refused the API's image: {_message(answer.body)}")

    return register


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "no reason given."
