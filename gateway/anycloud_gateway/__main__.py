"""`python -m anycloud_gateway`: becomes Envoy before the services whose sockets are in ANYCLOUD_RUNTIME_DIR.

For a container of its own, as in the chart; the supervisor of a local installation starts Envoy itself. ANYCLOUD_LISTEN
is `host:port`, 0.0.0.0:8080 without it. The access log goes to stdout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anycloud_gateway.command import command
from anycloud_gateway.config import envoy_config

LISTEN: Final = "0.0.0.0:8080"  # inside a Pod, whose network decides who reaches it


def prepare(environ: Mapping[str, str]) -> list[str]:
    """Writes the bootstrap; gives the command that runs it. Raises ValueError with one sentence, OSError."""
    runtime_dir = environ.get("ANYCLOUD_RUNTIME_DIR", "")
    if not Path(runtime_dir).is_absolute():
        raise ValueError(f"ANYCLOUD_RUNTIME_DIR is {runtime_dir!r}; it must be an absolute path.")
    host, _, port = environ.get("ANYCLOUD_LISTEN", LISTEN).rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"ANYCLOUD_LISTEN is {environ['ANYCLOUD_LISTEN']!r}; it must be host:port.")
    sockets = Path(runtime_dir)
    bootstrap = envoy_config(
        listen_host=host,
        listen_port=int(port),
        runtime_dir=sockets,
        admin=sockets / "admin.sock",
        access_log=Path("/dev/stdout"),
    )
    sockets.mkdir(mode=0o700, parents=True, exist_ok=True)  # whoever of the Pod's containers is first
    path = sockets / "envoy.json"
    path.write_text(json.dumps(bootstrap))
    return command(path)


def main() -> int:
    try:
        argv = prepare(os.environ)
        os.execv(argv[0], argv)  # noqa: S606  (Envoy takes this process over, and its signals)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
