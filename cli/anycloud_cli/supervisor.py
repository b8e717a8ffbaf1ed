"""The local API's supervisor, a program of its own: started, asked and stopped as a process, never imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from anycloud_cli.failures import Failure
from anycloud_cli.session import Session

Report = dict[str, Any]


def start(
    session: Session, port: int | None, sandbox: bool, kube_assets: str | None, progress: Callable[[Report], None]
) -> Report:
    """Starts the local API in the background and returns once it serves: its url, pid, sandbox, alreadyRunning.

    `kube_assets` is a folder of programs for the sandbox's control planes. `progress` gets each step's `step`, `state`
    and `text`. Raises Failure with the failing step's sentence."""
    receiving, reporting = os.pipe()
    arguments = ["local", "--report", str(reporting), *(["--sandbox"] if sandbox else [])]
    arguments += [] if port is None else ["--port", str(port)]
    arguments += [] if kube_assets is None else ["--kube-assets", kube_assets]
    process = subprocess.Popen(  # noqa: S603  (our own program, fixed words)
        _command(arguments),
        env=_environment(session),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(reporting,),
        start_new_session=True,  # a Ctrl-C in this terminal later on isn't meant for the API
    )
    os.close(reporting)
    try:
        with os.fdopen(receiving, encoding="utf-8") as reports:
            outcome = _verdict(reports, progress)
    except BaseException:  # a Ctrl-C now means: not started
        process.terminate()
        raise
    if outcome is None:
        raise Failure(_last_words(process) or "The supervisor of the local API ended without a word.")
    if "failed" in outcome:
        process.wait()  # it has ended all that it started; so a next start finds nobody
        raise Failure(outcome["failed"])
    _let_go(process)
    return outcome


def _verdict(reports: Any, progress: Callable[[Report], None]) -> Report | None:
    for line in reports:
        report: Report = json.loads(line)
        if "step" not in report:
            return report
        progress(report)
    return None


def _last_words(process: subprocess.Popen[bytes]) -> str:
    lines = process.stderr.read().decode(errors="replace").strip().splitlines() if process.stderr else []
    return lines[-1] if lines else ""


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """The supervisor goes on without us: nothing here waits for its end."""
    if process.stderr:
        process.stderr.close()
    process.stderr = None
    process.returncode = 0


def state(session: Session) -> Report | None:
    """What the local API's supervisor wrote last, with `alive`; None when none was ever started here."""
    answer: Report | None = json.loads(_ask(session, "status").stdout or "null")
    return answer


def stop(session: Session) -> Report:
    """Ends the local API with all its processes, also those that a killed supervisor left. `stopped` names them."""
    done = _ask(session, "stop")
    if done.returncode != 0:
        raise Failure((done.stderr.strip().splitlines() or ["The local API could not be stopped."])[-1])
    answer: Report = json.loads(done.stdout)
    return answer


def _ask(session: Session, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  (our own program, a fixed word)
        _command([what]), env=_environment(session), capture_output=True, text=True, check=False
    )


def _command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "anycloud_supervisor", *arguments]


def _environment(session: Session) -> dict[str, str]:
    return {**os.environ, "ANYCLOUD_DIR": str(session.directory.path)}
