"""`anycloud cluster`."""

from __future__ import annotations

from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.failures import TIMED_OUT, ApiRefusal, Failure
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import Duration, json_option, require, watch_options
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import cluster as view

_ALIASES = {"ls": "list", "get": "list", "describe": "status", "terminate": "delete", "rm": "delete"}
_LOOK_SECONDS = 1.0
Answer = dict[str, Any]
"""`{"cluster": {…}}`, as the API sends it and as `--json` prints it."""


@click.group(cls=AliasGroup, aliases=_ALIASES)
def cluster() -> None:
    """The installation's Kubernetes cluster."""


@cluster.command()
@click.argument("name")
@click.option("--credentials", metavar="NAME", help="The credential that buys the management VM.")
@click.option("--region", help="Where the management VM is.")
@click.option("--zone", help="Zone of that region; needs --region.")
@click.option("--vm-type", metavar="TYPE", help="What the management VM is.")
@click.option(
    "--checkpoint-bucket", metavar="NAME", help="A bucket of yours for backups; one with a backup is restored."
)
@json_option
@pass_session
def create(session: Session, /, name: str, **given: str | None) -> None:
    """Create the cluster, or continue one whose creation failed. Returns as soon as that is recorded.

    In a terminal, what is left out of --credentials, --vm-type and --region is asked for.
    """
    if given["zone"] and not given["region"]:
        raise click.UsageError("--zone needs --region.", click.get_current_context())
    if session.interactive:
        from anycloud_cli.questions import ask_for_cluster

        given.update(ask_for_cluster(session, given["credentials"], given["vm_type"], given["region"]))
    require({"--credentials": given["credentials"], "--vm-type": given["vm_type"], "--region": given["region"]})
    body = {
        "name": name,
        "credentialName": given["credentials"],
        "region": given["region"],
        "zone": given["zone"],
        "vmType": given["vm_type"],
        "checkpointBucket": given["checkpoint_bucket"],
    }
    body = {key: value for key, value in body.items() if value is not None}
    answer = session.api.request("POST", path("clusters"), body=body)
    made = answer["cluster"]
    follow = f"Follow it with `anycloud cluster status {made['name']} --watch`."
    session.out.result(answer, [f"Creating cluster {made['name']} ({made['id']}). {follow}"])


@cluster.command("list")
@json_option
@pass_session
def list_clusters(session: Session) -> None:
    """List the clusters that this API knows."""
    answer = session.listed(path("clusters"))
    session.out.result(answer, view.listing(answer["clusters"], session.clock.now_ms()))


@cluster.command()
@click.argument("cluster_ref", metavar="ID-OR-NAME")
@watch_options
@json_option
@pass_session
def status(session: Session, cluster_ref: str, watch: bool, interval: float) -> None:
    """Show one cluster. --watch ends when it is running, failed, or terminated with nothing left to release."""
    from anycloud_cli.world import in_sandbox

    sandbox = in_sandbox(session)

    def fetch() -> Answer:
        return _get(session, cluster_ref)

    def render(answer: Answer) -> list[str]:
        return view.status(answer["cluster"], session.clock.now_ms(), sandbox)

    if watch:
        from anycloud_cli.watching import watch as follow

        answer = follow(session, fetch, render, _at_rest, interval)
    else:
        answer = fetch()
        session.out.result(answer, render(answer))
    step = view.next_step(answer["cluster"], session.target.url)
    if step and not session.out.as_json:
        session.out.lines(["", f"   Next: {step}"])


@cluster.command()
@click.argument("cluster_ref", metavar="ID-OR-NAME")
@click.option("--no-wait", is_flag=True, help="Return as soon as the deletion is recorded.")
@click.option("--timeout", type=Duration(), metavar="SECONDS", help="Bound on the wait, not on the deletion.")
@json_option
@pass_session
def delete(session: Session, cluster_ref: str, no_wait: bool, timeout: float | None) -> None:
    """Release the management VM and everything made with it. Waits until that is done.

    The deletion runs in the API, so keep the API running until then. Node pools are never deleted from here.
    """
    answer = session.api.request("DELETE", path("clusters", cluster_ref))
    if no_wait:
        deleting = answer["cluster"]
        follow = f"Follow it with `anycloud cluster status {deleting['id']} --watch`."
        session.out.result(answer, [f"Deleting cluster {deleting['name']}. {follow}"])
    else:
        ended = _wait_for_end(session, answer, timeout)
        session.out.result(ended, [ended["cluster"]["state"]])


@cluster.command()
@click.argument("cluster_ref", metavar="ID-OR-NAME")
@json_option
@pass_session
def forget(session: Session, cluster_ref: str) -> None:
    """Drop this API's record of a lost cluster. Nothing in the cloud is touched; what is left there is listed."""
    forgotten = session.api.request("POST", path("clusters", cluster_ref, "forget"))
    lines = [f"Forgot cluster {forgotten['name']} ({forgotten['id']})."]
    if forgotten["leftovers"]:
        lines += ["Left in the cloud:", *(f"  {leftover}" for leftover in forgotten["leftovers"])]
    session.out.result(forgotten, lines)


def _get(session: Session, cluster_ref: str) -> Answer:
    answer: Answer = session.api.get(path("clusters", cluster_ref))
    return answer


def _at_rest(answer: Answer) -> bool:
    seen = answer["cluster"]
    return seen["state"] in ("running", "failed") or (seen["state"] == "terminated" and not seen["releasing"])


def _wait_for_end(session: Session, answer: Answer, timeout: float | None) -> Answer:
    """Follows a deletion by id, since the name may soon be another cluster's."""
    from anycloud_cli.patience import Patience
    from anycloud_cli.watching import RIDE_OUT_SECONDS

    deadline = None if timeout is None else session.clock.monotonic() + timeout
    patience = Patience(session.clock, RIDE_OUT_SECONDS, session.complain)
    told = False
    while not ((seen := answer["cluster"])["state"] == "terminated" and not seen["releasing"]):
        if seen["state"] == "failed":
            raise Failure(seen["lastError"] or "The deletion failed.", next_command=_again(seen))
        if not told:
            (session.out.note if session.out.as_json else _tell(session))(view.RELEASING)
            told = True
        if deadline is not None and session.clock.monotonic() >= deadline:
            raise Failure(_still_going(seen), exit_code=TIMED_OUT)
        session.clock.sleep(_LOOK_SECONDS)
        answer = patience.read(lambda: _get_or_gone(session, seen))
    return answer


def _tell(session: Session) -> Any:
    return lambda line: session.out.lines([line])


def _again(seen: dict[str, Any]) -> str:
    return f"anycloud cluster delete {seen['name']}"


def _still_going(seen: dict[str, Any]) -> str:
    watch = f"anycloud cluster status {seen['id']} --watch"
    return f"The time given is over, and the deletion continues in the API; follow it with `{watch}`."


def _get_or_gone(session: Session, deleting: dict[str, Any]) -> Answer:
    try:
        return _get(session, deleting["id"])
    except ApiRefusal as refusal:
        if refusal.code == "CLUSTER_NOT_FOUND":
            return {"cluster": {**deleting, "state": "terminated", "releasing": False}}
        raise
