"""`python -m anycloud_supervisor`: a program for `anycloud api` and for the hosted API's image, not for people."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anycloud_supervisor.failures import SupervisorError

if TYPE_CHECKING:
    from anycloud_supervisor import local


def main(argv: Sequence[str] | None = None, plan: local.Plan | None = None) -> int:
    """`local` and `hosted` serve until SIGTERM; `status` and `stop` print JSON about the local installation.

    `plan` replaces the processes of the local installation."""
    given = _parser().parse_args(argv)
    os.umask(0o077)
    if given.what == "local":
        from anycloud_supervisor import local
        from anycloud_supervisor.reports import Reports

        return local.run(
            local.Request(given.port, given.sandbox, given.kube_assets), Reports(given.report), os.environ, plan
        )
    if given.what == "hosted":
        from anycloud_supervisor import hosted

        return hosted.run(os.environ)
    return _control(given.what)


def _control(what: str) -> int:
    from anycloud_supervisor import control

    try:
        answer = control.status(os.environ) if what == "status" else control.stop(os.environ)
    except SupervisorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(json.dumps(answer))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="anycloud_supervisor", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    local = commands.add_parser("local", help="run the installation on this machine")
    local.add_argument("--port", type=int)
    local.add_argument("--sandbox", action="store_true")
    local.add_argument("--kube-assets", metavar="DIR", help="the sandbox's control planes run Kubernetes' own programs")
    local.add_argument("--report", type=int, metavar="FD", help="descriptor for progress as JSON lines")
    commands.add_parser("hosted", help="run the installation of this Pod")
    commands.add_parser("status", help="show the local installation's state file, with what still runs")
    commands.add_parser("stop", help="end the local installation")
    return parser


if __name__ == "__main__":
    sys.exit(main())
