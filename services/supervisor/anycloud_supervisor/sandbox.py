"""The world outside as two more processes, for an installation on one machine without clouds."""

from __future__ import annotations

import hashlib
import json
import random
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from anycloud_common.settings import API_VERSION

from anycloud_supervisor import files
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.plan import Action, ProcessSpec, Step
from anycloud_supervisor.probes import http, http_answers, http_ok
from anycloud_supervisor.services import python

CHART = "ghcr.io/anycloud-sh/charts/anycloud-api"
API_IMAGE = f"ghcr.io/anycloud-sh/api:{API_VERSION}"
# There is no archive of the chart to hash (the sandbox plays it, or reads its folder): name and version stand for it.
CHART_DIGEST = f"sha256:{hashlib.sha256(f'anycloud-api-{API_VERSION}'.encode()).hexdigest()}"
SIGN_IN = "ghs_sandbox_demo"
_CHART = Path(__file__).parents[3] / "deploy" / "charts" / "anycloud-api"
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


def sandbox_steps(directory: Path, url: str, env: Mapping[str, str], assets: Sequence[Path] = ()) -> list[Step]:
    """The world, then the agent of its Nodes. SIGTERM is a power cut for the agent's containers: they end with it.

    With `assets`, folders of Kubernetes' own programs, Helm installs the API's own chart.
    Raises SupervisorError, OSError."""
    world, agent = directory / "world", directory / "agent"
    port = url.rpartition(":")[2]
    serve = python("anycloud_sandbox", "serve", "--state", str(world), "--port", port)
    serve += [word for folder in assets for word in ("--kube-assets", str(folder))]
    images = [_api_image(directory, bool(assets)), *([_api_chart()] if assets else [])]
    nodeagent = python("anycloud_sandbox", "nodeagent", "--state", str(agent), "--world", url)
    return [
        Step(
            [ProcessSpec("sandbox", serve, env, http_ok(f"{url}/faults"), answers=http_answers(f"{url}/faults"))],
            then=_register(url, images),
        ),
        Step([ProcessSpec("nodeagent", nodeagent, env, _running)]),
    ]


async def _running() -> bool:
    return True


def _api_image(directory: Path, charted: bool) -> dict[str, Any]:
    """The hosted API's image: this very program, in hosted mode. Its own chart starts each service by itself."""
    manifest = {
        "accelerator": "none",
        "env": {},
        "command": [sys.executable, "-m", "anycloud_supervisor", "hosted"],
        "labels": {"sh.anycloud.api.version": API_VERSION, "sh.anycloud.api.chart-digest": CHART_DIGEST},
    }
    if charted:
        manifest["env"] = {"PATH": f"{_programs(directory / 'api-image')}:/usr/local/bin:/usr/bin:/bin"}
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        manifest["paths"] = {"ANYCLOUD_SERVICEACCOUNT_DIR": account, "TMPDIR": "/tmp"}  # noqa: S108
    return {"reference": API_IMAGE, "manifest": manifest}


def _programs(image: Path) -> Path:
    """What the chart finds in the image, for containers that are processes on this machine: `python`, whose gateway
    listens at the Pod's address, as the network is everybody's; and `chown`, as all of them are one user."""
    folder = image / "bin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    listen = 'export ANYCLOUD_LISTEN="$ANYCLOUD_SANDBOX_ADDRESS:8080"'
    for name, line in (("python", f'{listen}\nexec {shlex.quote(sys.executable)} "$@"'), ("chown", "exit 0")):
        files.write(folder / name, f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o700)
    return folder


def _api_chart() -> dict[str, Any]:
    if not (_CHART / "Chart.yaml").is_file():
        raise SupervisorError(f"The API's chart isn't at {_CHART}: --kube-assets needs the project's own tree.")
    return {"reference": f"{CHART}@{CHART_DIGEST}", "directory": str(_CHART)}


def _register(url: str, images: Sequence[dict[str, Any]]) -> Action:
    """Makes images (and charts, which are kept like them) known to the sandbox's registry."""

    async def register() -> None:
        for image in images:
            try:
                answer = await http("POST", f"{url}/registry/images", image)
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
