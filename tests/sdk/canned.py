"""An API that answers what it is told to, and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any


@dataclass
class Canned:
    url: str = ""
    status: int = 200
    content: bytes = b""
    content_type: str = "application/json"
    asked: list[Asked] = field(default_factory=list)

    def answers(self, status: int, body: Any, content_type: str = "application/json") -> None:
        """To every call from now on. Text is sent as it is, anything else as JSON."""
        self.asked.clear()
        self.status, self.content_type = status, content_type
        self.content = body.encode() if isinstance(body, str) else json.dumps(body).encode()


@contextmanager
def canned() -> Iterator[Canned]:
    api = Canned()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            api.asked.append(Asked(self.command, self.path, headers, json.loads(sent) if sent else None))
            self.send_response(api.status)
            self.send_header("content-type", api.content_type)
            self.send_header("content-length", str(len(api.content)))
            self.end_headers()
            self.wfile.write(api.content)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the base class wants them so

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
