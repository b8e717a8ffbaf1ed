"""Everything that the HTTP benchmarks compare, started once: the product's cluster and deployment services, the same
deployment service behind a plain gRPC server and behind FastAPI, and one Envoy with a listener for each of them."""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anycloud_gateway.command import command
from anycloud_gateway.config import envoy_config

from tests.bench.doors import fastapi_app, plain
from tests.bench.doors.content import environment, migrate
from tests.support.installation import free_port

HERE = Path(__file__).parent
DOORS = ("anycloud", "transcoding", "FastAPI", "FastAPI alone")
"""Through Envoy but the last."""


class Measured(NamedTuple):
    """Answers a second, and times of one; CPU microseconds per answer of the answering process and of Envoy."""

    rps: float
    p50_ms: float
    p99_ms: float
    service_us: float
    envoy_us: float

    @property
    def cpu_us(self) -> float:
        return self.service_us + self.envoy_us


class Stack(NamedTuple):
    token: str
    ports: dict[str, int]
    """Door to port of 127.0.0.1."""
    services: dict[str, int]
    """Door to the pid of the process that answers."""
    envoy: int

    def request(self, door: str, verb: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of an HTTP/1.1 request."""
        lines = [
            f"{verb} {path} HTTP/1.1",
            f"host: 127.0.0.1:{self.ports[door]}",
            f"authorization: Bearer {self.token}",
            "anycloud-client-version: 0.1.70",
        ]
        if body:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def ask(self, door: str, verb: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        """Status and JSON of one answer."""
        headers = {"authorization": f"Bearer {self.token}", "anycloud-client-version": "0.1.70"}
        if body:
            headers["content-type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[door], timeout=10)
        with contextlib.closing(connection):
            connection.request(verb, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@contextmanager
def started(directory: Path, content: dict[str, str]) -> Iterator[Stack]:
    """`content` is the environment of an installer whose databases are filled; each door gets a copy of them."""
    token = Path(content["ANYCLOUD_LOCAL_TOKEN_FILE"]).read_text()
    own = {
        door: _copied(content, directory / name) for door, name in zip(DOORS[1:3], ("plain", "fastapi"), strict=True)
    }
    alone = free_port()
    commands = {
        "cluster": ([sys.executable, "-m", "anycloud_cluster"], content),
        "anycloud": ([sys.executable, "-m", "anycloud_deployment"], content),
        "transcoding": ([sys.executable, str(HERE / "plain.py")], own["transcoding"]),
        "FastAPI": ([sys.executable, str(HERE / "fastapi_app.py"), str(alone)], own["FastAPI"]),
    }
    with ExitStack() as ends:
        running = {name: _run(ends, argv, env, directory / f"{name}.log") for name, (argv, env) in commands.items()}
        ports = {door: free_port() for door in DOORS[:3]} | {DOORS[3]: alone}
        config = directory / "envoy.json"
        config.write_text(json.dumps(_envoy(directory, Path(content["ANYCLOUD_RUNTIME_DIR"]), own, ports)))
        envoy = _run(ends, command(config), dict(os.environ), directory / "envoy.log")
        pids = {door: running[door].pid for door in DOORS[:3]} | {DOORS[3]: running["FastAPI"].pid}
        stack = Stack(token, ports, pids, envoy.pid)
        for door in DOORS:
            _wait(stack, door, directory)
        yield stack


@contextmanager
def product(directory: Path, env: dict[str, str]) -> Iterator[Stack]:
    """The product alone, with the databases of `env`."""
    token = Path(env["ANYCLOUD_LOCAL_TOKEN_FILE"]).read_text()
    ours, port, config = DOORS[0], free_port(), directory / "envoy.json"
    bootstrap = envoy_config(
        listen_host="127.0.0.1",
        listen_port=port,
        runtime_dir=Path(env["ANYCLOUD_RUNTIME_DIR"]),
        admin=directory / "admin.sock",
        access_log=directory / "access.log",
    )
    config.write_text(json.dumps(bootstrap))
    with ExitStack() as ends:
        running = {
            name: _run(ends, [sys.executable, "-m", f"anycloud_{name}"], env, directory / f"{name}.log")
            for name in ("cluster", "deployment")
        }
        envoy = _run(ends, command(config), dict(os.environ), directory / "envoy.log")
        stack = Stack(token, {ours: port}, {ours: running["deployment"].pid}, envoy.pid)
        _wait(stack, ours, directory)
        yield stack


def measure(made: Stack, door: str, request: bytes, connections: int, seconds: float) -> Measured:
    """One round of the load generator."""
    pids = (made.services[door], made.envoy)
    before = [cpu_seconds(pid) for pid in pids]
    argv = [sys.executable, str(HERE / "load.py"), str(made.ports[door]), str(connections), str(seconds)]
    told = json.loads(subprocess.run(argv, input=request, stdout=subprocess.PIPE, check=True).stdout)
    answers = told["rps"] * seconds
    service, envoy = ((cpu_seconds(pid) - was) / answers * 1e6 for pid, was in zip(pids, before, strict=True))
    return Measured(**told, service_us=service, envoy_us=envoy)


def cpu_seconds(pid: int) -> float:
    """What a process has taken so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def filled(directory: Path) -> dict[str, str]:
    """An installer's environment with empty databases."""
    directory.mkdir()
    env = environment(directory, secrets.token_hex(16))
    migrate(env)
    return env


def _copied(content: dict[str, str], directory: Path) -> dict[str, str]:
    directory.mkdir()
    shutil.copytree(Path(content["ANYCLOUD_DATA_DIR"]) / "db", directory / "db")
    (directory / "run").mkdir(mode=0o700)
    return {**content, "ANYCLOUD_DATA_DIR": str(directory), "ANYCLOUD_RUNTIME_DIR": str(directory / "run")}


def _run(ends: ExitStack, argv: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def end() -> None:
        process.terminate()
        process.wait()

    ends.callback(end)
    return process


def _envoy(directory: Path, runtime_dir: Path, own: dict[str, dict[str, str]], ports: dict[str, int]) -> dict[str, Any]:
    """The product's bootstrap, with two listeners more. Access log and limits are the same for all."""
    made = envoy_config(
        listen_host="127.0.0.1",
        listen_port=ports["anycloud"],
        runtime_dir=runtime_dir,
        admin=directory / "admin.sock",
        access_log=directory / "access.log",
    )
    descriptors = directory / "plain.pb"
    descriptors.write_bytes(plain.descriptors())
    resources = made["static_resources"]
    [listener], clusters = resources["listeners"], resources["clusters"]
    [deployment] = [cluster for cluster in clusters if cluster["name"] == "deployment"]
    for door, socket in (("transcoding", plain.SOCKET), ("FastAPI", fastapi_app.SOCKET)):
        other = copy.deepcopy(listener)
        other["name"] = door
        other["address"]["socket_address"]["port_value"] = ports[door]
        manager = other["filter_chains"][0]["filters"][0]["typed_config"]
        manager["route_config"] = _all_to(door)
        filters = {one["name"].rpartition(".")[2]: one for one in manager["http_filters"]}
        transcoder = filters["grpc_json_transcoder"]
        transcoder["typed_config"] |= {
            "proto_descriptor": str(descriptors),
            "services": plain.services(),
            "print_options": {"always_print_primitive_fields": True},
        }
        manager["http_filters"] = [transcoder, filters["router"]] if door == "transcoding" else [filters["router"]]
        cluster = copy.deepcopy(deployment)
        cluster["name"] = door
        path = Path(own[door]["ANYCLOUD_RUNTIME_DIR"]) / socket
        cluster["load_assignment"] = {
            "cluster_name": door,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": str(path)}}}}]}],
        }
        del cluster["health_checks"]
        if door == "FastAPI":
            del cluster["typed_extension_protocol_options"]
        resources["listeners"].append(other)
        clusters.append(cluster)
    return made


def _all_to(cluster: str) -> dict[str, Any]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "30s"}}
    return {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]}


def _wait(stack: Stack, door: str, logs: Path) -> None:
    """Until the door answers. Raises TimeoutError with the last that all of them logged."""
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError, ValueError):
            if stack.ask(door, "GET", "/v1/workloads")[0] == 200:
                return
        if time.monotonic() > deadline:
            told = "".join(f"\n{log.name}: {log.read_text()[-2000:]}" for log in sorted(logs.glob("*.log")))
            raise TimeoutError(f"{door} doesn't answer{told}")
        time.sleep(0.1)
