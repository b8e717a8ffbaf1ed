"""A small HTTP server that answers with the contract's JSON, and the command line run against it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest
from anycloud_cli.__main__ import main
from anycloud_cli.clock import Clock
from anycloud_cli.session import Session

NOW = 1_790_000_000_000
HOUR = 3_600_000


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


Handler = Callable[[Request], Reply]


class FakeApi:
    """Answers by method and path; keeps what it was asked."""

    def __init__(self, host: str) -> None:
        self.requests: list[Request] = []
        self.routes: dict[tuple[str, str], Handler] = {}
        self._server = ThreadingHTTPServer((host, 0), self._handler())
        self.url = f"http://{host}:{self._server.server_port}"
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def on(self, method: str, path: str, *bodies: Any, status: int = 200) -> None:
        """Answers with these bodies one after the other, and with the last one from then on."""
        left = list(bodies)

        def handle(_request: Request) -> Reply:
            body = left.pop(0) if len(left) > 1 else left[0]
            return body if isinstance(body, Reply) else Reply(status, body)

        self.routes[method, f"/v1{path}"] = handle

    def refuse(self, method: str, path: str, status: int, code: str, message: str, data: Any = None) -> None:
        self.on(method, path, refusal(status, code, message, data))

    def asked(self, method: str, path: str) -> list[Request]:
        return [made for made in self.requests if (made.method, made.path) == (method, f"/v1{path}")]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: Request) -> Reply:
        self.requests.append(request)
        handler = self.routes.get((request.method, request.path))
        return handler(request) if handler else refusal(404, "TEST_NO_ROUTE", f"No {request.method} {request.path}.")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Http(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or each answer takes 40 ms

            def handle_one(self) -> None:
                parts = urlsplit(self.path)
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(raw) if raw else None
                reply = api._answer(Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body))
                self._send(reply)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815

            def _send(self, reply: Reply) -> None:
                data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                data = b"" if reply.status == 204 else data
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.status != 204:
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Http


def refusal(status: int, code: str, message: str, data: Any = None) -> Reply:
    body = {"defined": True, "code": code, "status": status, "message": message}
    return Reply(status, body if data is None else {**body, "data": data})


class StepClock(Clock):
    """Time that a sleep moves; `on_sleep` runs after each."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.sleeps: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return NOW + int(self.elapsed * 1000)

    def monotonic(self) -> float:
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.elapsed += seconds
        self.on_sleep()


class Run(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """`anycloud` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], directory: Path) -> None:
        self._capsys = capsys
        self.directory = directory
        self.clock = StepClock()

    def __call__(self, *words: str) -> Run:
        code = main(words, Session(self.clock))
        captured = self._capsys.readouterr()
        return Run(code, captured.out, captured.err)

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi("127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def hosted() -> Iterator[FakeApi]:
    """A hosted API: to clients 127.0.0.2 is another host than theirs, as it is to the published client."""
    made = FakeApi("127.0.0.2")
    yield made
    made.close()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("API_URL", "ANYCLOUD_API_TOKEN", "GITHUB_TOKEN", "ANYCLOUD_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    made = tmp_path / "anycloud"
    monkeypatch.setenv("ANYCLOUD_DIR", str(made))
    return made


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], directory: Path, api: FakeApi) -> Cli:
    """Signed in to the fake API as to the local one."""
    made = Cli(capsys, directory)
    made.write("api-url", f"{api.url}\n")
    made.write("local-api-token", "install-token\n")
    return made


class Things:
    """Objects of the contract, all keys present."""

    @staticmethod
    def cluster(**changes: Any) -> dict[str, Any]:
        return {
            "activeNodePoolCount": 0,
            "address": "127.4.0.1",
            "apiImage": "ghcr.io/anycloud-sh/api:0.1.70@sha256:00",
            "apiVersion": "0.1.70",
            "chartVersion": "0.1.70",
            "cloudProvider": "AWS",
            "connected": True,
            "connectionRevision": 1,
            "createdAt": NOW - 3 * HOUR,
            "id": "cl-abc",
            "k3sVersion": "v1.35.2+k3s1",
            "kubernetesIdentity": "11-22",
            "lastError": None,
            "managementApiUrl": "https://cl-abc.anycloud.sh",
            "name": "prod",
            "region": "us-east-1",
            "release": None,
            "releasing": False,
            "state": "running",
            "updatedAt": NOW,
            "vmType": "t3.large",
            "zone": None,
            **changes,
        }

    @staticmethod
    def pool(**changes: Any) -> dict[str, Any]:
        return {
            "capacity": {"drainingVmCount": 0, "locations": [], "readyVmCount": 2, "startingVmCount": 0},
            "cloudProvider": "AWS",
            "clusterId": "cl-abc",
            "createdAt": NOW - 3 * HOUR,
            "id": "np-gpu",
            "ingress": {"entryIp": None, "release": None},
            "ingressEntryIp": None,
            "lastError": None,
            "liveReferences": 1,
            "maxVmCount": 2,
            "minVmCount": 2,
            "name": "training",
            "region": "us-east-1",
            "releasing": False,
            "state": "running",
            "updatedAt": NOW,
            "vmTypes": ["g5.xlarge"],
            "zone": "us-east-1a",
            **changes,
        }

    @staticmethod
    def deployment(**changes: Any) -> dict[str, Any]:
        return {
            "command": None,
            "createdAt": NOW - 3 * HOUR,
            "deletedAt": None,
            "deletionRequestedAt": None,
            "envKeys": [],
            "generation": 3,
            "gpuCount": 0,
            "id": "dep-voice",
            "image": "ghcr.io/acme/model:v3",
            "jobs": {"queued": 0, "retrying": 0, "running": 1, "terminal": 0, "unreleased": 1},
            "maxConcurrentJobsPerReplica": 2,
            "name": "voice",
            "nodePoolId": "np-gpu",
            "readinessProbe": None,
            "replicas": 1,
            "secretNames": [],
            "status": None,
            "target": {"kind": "nodePool", "nodePoolId": "np-gpu"},
            "updatedAt": NOW,
            "workload": None,
            **changes,
        }

    @staticmethod
    def seen(**changes: Any) -> dict[str, Any]:
        """The `status` of a Deployment."""
        return {
            "applicationReady": None,
            "appliedGeneration": 3,
            "blockingJobs": {"jobs": [], "total": 0},
            "containerId": "containerd://c1",
            "containerReady": True,
            "observation": "observed",
            "observationError": None,
            "observedAt": NOW,
            "podGeneration": 3,
            "podName": "dep-voice-1",
            "podUid": "aa-bb",
            "probeConfigured": False,
            "ready": True,
            "readyReplicas": 1,
            "reason": "The Pod is ready.",
            "releasing": False,
            "requestedGeneration": 3,
            "state": "running",
            "upgrade": None,
            **changes,
        }

    @staticmethod
    def workload(**changes: Any) -> dict[str, Any]:
        return {
            "id": "job-1",
            "deploymentId": "dep-voice",
            "state": "queued",
            "workloadType": "job",
            "image": None,
            "startedAt": NOW - 3 * HOUR,
            "completedAt": None,
            "cleanedAt": None,
            **changes,
        }

    @staticmethod
    def status(*, events: list[dict[str, Any]] | None = None, more: Any = None, **changes: Any) -> dict[str, Any]:
        """The answer for one workload; `more` are keys beside `workload`."""
        answer = {"workload": Things.workload(**changes), "events": events or [], "status": "-"}
        return {**answer, **(more or {})}

    @staticmethod
    def event(number: int, state: str, **metadata: Any) -> dict[str, Any]:
        event = {"id": number, "createdAt": NOW - HOUR + number, "state": state, "workloadId": "job-1"}
        return {**event, "metadata": metadata or None}


@pytest.fixture
def things() -> type[Things]:
    return Things
