"""`anycloud api`: the local API's life, and the choice of the active API."""

from __future__ import annotations

import os
from typing import Any

import click

from anycloud_cli import VERSION, sign_in, supervisor
from anycloud_cli import target as targets
from anycloud_cli.client import path
from anycloud_cli.failures import REFUSED, ApiRefusal, Failure, restarting
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import json_option
from anycloud_cli.patience import Patience
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import api as view
from anycloud_cli.views.layout import DONE, FAILED, UNDER_WAY
from anycloud_cli.world import in_sandbox

_RIDE_OUT_SECONDS = 10.0
_KUBE_ASSETS = (
    "With a sandbox whose clusters are real control planes: kube-apiserver and its like from this folder, which"
    " `make kube-assets` fills. Also by ANYCLOUD_KUBE_ASSETS, with --sandbox. The first start decides."
)
_SIGNS = {"starting": UNDER_WAY, "done": DONE, "failed": FAILED}


@click.group(cls=AliasGroup)
def api() -> None:
    """Start, stop and look at the local API; choose the API that commands go to."""


@api.command()
@click.option("--sandbox", is_flag=True, help="With a world of its own in place of clouds: no account, nothing bought.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1; the last one used, else 8080.")
@click.option("--kube-assets", metavar="DIR", type=click.Path(file_okay=False), help=_KUBE_ASSETS)
@json_option
@pass_session
def start(session: Session, sandbox: bool, port: int | None, kube_assets: str | None) -> None:
    """Start the local API in the background. Returns once it serves."""
    sandbox = sandbox or kube_assets is not None
    started = supervisor.start(session, port, sandbox, kube_assets, lambda report: _show_step(session, report))
    already = "is already running" if started["alreadyRunning"] else "serves"
    lines = [f"The local API {already} at {started['url']} (pid {started['pid']})."]
    active = session.directory.read("api-url")
    if active and not targets.is_local(targets.normalise(active)):
        lines.append(f"Commands still go to {active}; `anycloud api use local` brings them here.")
    session.out.result(started, lines)


def _show_step(session: Session, report: dict[str, Any]) -> None:
    session.out.note(f"{_SIGNS[report['state']]} {report['step']}  {report['text']}")


@api.command()
@json_option
@pass_session
def stop(session: Session) -> None:
    """Stop the local API with all its processes, and nothing else."""
    done = supervisor.stop(session)
    said = f"Stopped {', '.join(done['stopped'])}." if done["stopped"] else "The local API is not running."
    session.out.result(done, [said])


@api.command()
@json_option
@pass_session
def status(session: Session) -> int:
    """Show the active API, and the processes of the local one."""
    local = supervisor.state(session)
    release, trouble = _release(session)
    facts = _facts(session, release, trouble, local)
    session.out.result(facts, view.status(facts, session.clock.now_ms()))
    if trouble is not None:
        session.out.note(trouble.sentence())
    return 0 if facts["compatible"] else REFUSED


def _release(session: Session) -> tuple[dict[str, Any] | None, Failure | None]:
    """The release that the active API serves, or why it can't be had. A restarting API is given some seconds."""
    patience = Patience(session.clock, _RIDE_OUT_SECONDS)
    try:
        return patience.read(lambda: session.api.get(path("system-release")), restarting), None
    except Failure as failure:
        return None, failure


def _facts(
    session: Session, release: dict[str, Any] | None, trouble: Failure | None, local: dict[str, Any] | None
) -> dict[str, Any]:
    import anycloud_catalog

    served = release or {"servedVersion": None, "schemaVersion": None, "upgrade": None, "rollout": None}
    return {
        "state": _state(session, trouble, local),
        "url": session.target.url,
        "kind": "local" if session.target.local else "hosted",
        "sandbox": in_sandbox(session),
        "clientVersion": VERSION,
        "compatible": served["servedVersion"] == VERSION,
        "catalogVersion": anycloud_catalog.VERSION,
        **served,
        "local": local,
    }


def _state(session: Session, trouble: Failure | None, local: dict[str, Any] | None) -> str:
    if trouble is None:
        return "running"
    if isinstance(trouble, ApiRefusal):
        return "refusing"
    if session.target.local and not (local and local["alive"]):
        return "not running"
    return "not answering"


@api.command()
@click.argument("url", metavar="URL|local")
@json_option
@pass_session
def use(session: Session, url: str) -> None:
    """Send later commands to the API at URL, or back to the local one.

    A hosted API trades your GitHub sign-in for a token of its own, which is kept for that URL alone.
    """
    chosen = _local_url(session) if url == "local" else targets.normalise(url)
    if not targets.is_local(chosen):
        token = sign_in.exchange(session, chosen)
        _remember_local(session)
        targets.store_token(session.directory, chosen, token)
    session.directory.write("api-url", chosen)
    if session.target.url != chosen and os.environ.get("API_URL"):
        session.out.note("API_URL is set in the environment and goes before this choice.")
    session.out.result({"url": chosen}, [f"Commands go to {chosen}."])


def _local_url(session: Session) -> str:
    return targets.normalise(session.directory.read("local-api-url") or targets.DEFAULT_URL)


def _remember_local(session: Session) -> None:
    """Keeps the way back, for a local API that some other program has written down as the active one."""
    active = session.directory.read("api-url")
    if active and targets.is_local(targets.normalise(active)) and session.directory.read("local-api-url") is None:
        session.directory.write("local-api-url", targets.normalise(active))
