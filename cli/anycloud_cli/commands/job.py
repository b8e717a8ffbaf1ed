"""`anycloud job`: submits to a Deployment, and lists."""

from __future__ import annotations

import secrets
from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.failures import ApiRefusal, Failure, passing, unsent
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import Duration, json_option, wait_option
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import workload as view

_RETRY_SECONDS = 30.0
_PAUSE_SECONDS = 1.0
_MOST = 1000
_MORE = f"`-n` shows up to {_MOST:,}."


class _JobGroup(AliasGroup):
    """Its own options submit a Job; its commands are about Jobs."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            raise click.UsageError("A Job runs on a Deployment: give --deployment, and no image or command.", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_JobGroup, aliases={"ls": "list"}, invoke_without_command=True, subcommand_metavar="[list]")
@click.option("--deployment", metavar="ID-OR-ACTIVE-NAME", help="The Deployment that runs it.")
@click.option("--id", "-i", "job_id", metavar="ID", help="The Job's id; a new one is made without it.")
@click.option("--timeout", type=Duration(), metavar="SECONDS", help="Longest time until the Job is picked up.")
@wait_option("Wait until the Job is completed, with the exit codes of `anycloud wait`.")
@json_option
@click.pass_context
def job(
    ctx: click.Context, deployment: str | None, job_id: str | None, timeout: float | None, wait: bool
) -> int | None:
    """Submit a Job to a Deployment: anycloud job --deployment ID-OR-ACTIVE-NAME."""
    session = ctx.ensure_object(Session)
    if ctx.invoked_subcommand is not None:
        if deployment or job_id or timeout is not None or wait:
            raise click.UsageError(f"Put the options behind `{ctx.invoked_subcommand}`.", ctx)
        return None
    if deployment is None:
        raise click.UsageError("Missing --deployment.", ctx)
    receipt = _submit(session, deployment, job_id, timeout)
    if not wait:
        session.out.result(receipt, [receipt["id"]])
        return 0
    from anycloud_cli.waiting import WorkloadTarget, follow

    if session.out.as_json:
        session.out.record(receipt)
    return follow(session, [WorkloadTarget(session.api, receipt["id"])])


def _submit(session: Session, deployment: str, job_id: str | None, timeout: float | None) -> dict[str, Any]:
    """Submits under an id known before, so that a lost answer can be asked for again without a second Job."""
    chosen = job_id or f"job-{secrets.token_hex(12)}"
    body: dict[str, Any] = {"deployment": deployment, "id": chosen, "workloadType": "job"}
    if timeout is not None:
        body["timeout"] = timeout
    begun, lost = session.clock.monotonic(), False
    while True:
        try:
            receipt: dict[str, Any] = session.api.request("POST", path("workloads"), body=body)
            return receipt
        except Failure as failure:
            if lost and job_id is None and isinstance(failure, ApiRefusal) and failure.code == "WORKLOAD_ID_CONFLICT":
                return {"id": chosen}  # nobody else can have made that id: the lost answer was a yes
            if not lost and (unsent(failure) or not passing(failure)):
                raise
            lost = True
            if not passing(failure) or session.clock.monotonic() - begun >= _RETRY_SECONDS:
                raise _uncertain(chosen, failure) from failure
        session.clock.sleep(_PAUSE_SECONDS)


def _uncertain(chosen: str, failure: Failure) -> Failure:
    said = f"No certain answer ({failure.message.rstrip('.')}); Job {chosen} may have been submitted."
    return Failure(said, next_command=f"anycloud status {chosen}")


@job.command("list")
@click.option("--deployment", metavar="ID", help="Only Jobs of this Deployment, which may be deleted already.")
@click.option("-n", "count", type=click.IntRange(1, _MOST), default=200, show_default=True, help="The newest so many.")
@click.option("--status", metavar="STATE", help="Only Jobs in this state.")
@click.option("--filter", "text", metavar="TEXT", help="Only Jobs that match the text.")
@click.option("--watch", is_flag=True, help="Refresh one Deployment's Jobs until stopped.")
@click.option("--interval", type=click.FloatRange(min=1), default=5.0, show_default=True, metavar="SECONDS")
@json_option
@pass_session
def list_jobs(
    session: Session,
    /,
    *,
    deployment: str | None,
    count: int,
    status: str | None,
    text: str | None,
    watch: bool,
    interval: float,
) -> None:
    """List Jobs, newest first."""
    query = {"workloadType": "job", "deploymentId": deployment, "limit": count, "status": status, "filter": text}

    def fetch() -> Any:
        return session.listed(path("workloads"), query, _MORE if count < _MOST else "")

    def render(jobs: list[dict[str, Any]]) -> list[str]:
        return view.listing(jobs, session.clock.now_ms())

    if not watch:
        jobs = fetch()
        session.out.result(jobs, render(jobs))
        return
    if deployment is None or status or text or session.out.as_json:
        raise click.UsageError("--watch needs --deployment, and goes without --status, --filter and --json.")
    from anycloud_cli.watching import watch as follow

    follow(session, fetch, render, lambda jobs: False, interval)
