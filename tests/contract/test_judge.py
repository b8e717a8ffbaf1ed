"""The judge itself: it sees what the published client would pass over in silence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.contract import sdk
from tests.contract.sdk import Judge, Verdict
from tests.contract.world import Api

ERROR = {"code": "CLUSTER_NOT_FOUND", "defined": True, "message": "no", "status": 404}


class Stub(BaseHTTPRequestHandler):
    """Answers every GET with the same thing."""

    status = 200
    content = b""
    kind: str | None = "application/json"

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.kind:
            self.send_header("content-type", self.kind)
        self.send_header("content-length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Api(f"http://127.0.0.1:{server.server_address[1]}", "any")
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A judge without an installation."""
    if not sdk.PYTHON.exists():
        pytest.skip(sdk.HOW_TO_GET)
    started = Judge(tmp_path_factory.mktemp("judge"))
    yield started
    started.close()


def verdict(api: Api, judge: Judge, operation: str, status: int, content: bytes, **args: str) -> Verdict:
    Stub.status, Stub.content = status, content
    return judge.operation(api, operation, **args)


@pytest.mark.parametrize(
    ("operation", "status", "content"),
    [
        ("list_clusters", 201, b'{"clusters": []}'),
        ("list_clusters", 204, b""),
        ("list_clusters", 200, b"null"),
        ("list_credentials", 200, b"{}"),
        ("list_credentials", 202, b"[]"),
    ],
)
def test_a_success_that_the_client_takes_for_none_or_nothing_is_seen(
    api: Api, alone: Judge, operation: str, status: int, content: bytes
) -> None:
    told = verdict(api, alone, operation, status, content)
    told.raised("SilentNoneError")
    with pytest.raises(AssertionError):
        told.value("ListClustersResponse", 200)


@pytest.mark.parametrize(
    "changed",
    [
        {"status": 400},
        {"status": "404"},
        {"defined": False},
        {"code": "CLUSTER_GONE"},
        {"more": 1},
        {"code": 5, "details": []},
    ],
    ids=str,
)
def test_an_error_that_the_client_cannot_read_is_seen(api: Api, alone: Judge, changed: dict[str, Any]) -> None:
    right, wrong = (json.dumps(error).encode() for error in (ERROR, {**ERROR, **changed}))
    verdict(api, alone, "get_cluster", 404, right, id="x").refused(404, "CLUSTER_NOT_FOUND")
    told = verdict(api, alone, "get_cluster", 404, wrong, id="x")
    with pytest.raises(AssertionError):
        told.refused(404, "CLUSTER_NOT_FOUND")


def test_an_answer_without_its_declared_form_is_an_exception(api: Api, alone: Judge) -> None:
    verdict(api, alone, "list_clusters", 200, b"{}").raised("ValidationError")
    verdict(api, alone, "list_clusters", 200, b'{"clusters": [], "more": 1}').raised("ValueError")
