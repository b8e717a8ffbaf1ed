"""The supervisor's program with stand-ins for the installation: run as a script by tests.

FAKE_REFUSAL makes the first step fail with that sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from anycloud_supervisor.__main__ import main
from anycloud_supervisor.places import Places
from anycloud_supervisor.plan import ProcessSpec, Step
from anycloud_supervisor.probes import http_ok

_API = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"servedVersion": "0.1.70", "schemaVersion": "7", "upgrade": None, "rollout": None}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args): pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def plan(places: Places, sockets: Path, url: str, world: str | None, environ: Mapping[str, str]) -> list[Step]:
    env = {"PATH": os.environ["PATH"]}
    port = str(urlsplit(url).port)

    async def at_once() -> bool:
        return True

    refusal = os.environ.get("FAKE_REFUSAL")
    script = f"echo '{refusal}' >&2; exit 1" if refusal else "exit 0"
    return [
        Step([ProcessSpec("world", ["/bin/sleep", "1000"], env, at_once)]),
        Step([ProcessSpec("migrate", ["/bin/sh", "-c", script], env, None)]),
        Step([ProcessSpec("envoy", [sys.executable, "-S", "-c", _API, port], env, http_ok(f"{url}/healthz"))]),
    ]


if __name__ == "__main__":
    sys.exit(main(plan=plan))
