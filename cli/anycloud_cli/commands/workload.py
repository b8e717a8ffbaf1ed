"""`anycloud status`, `terminate` and `resubmit`: one Job by its id."""

from __future__ import annotations

from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.options import Duration, json_option, wait_option, watch_options
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import workload as view


@click.command()
@click.argument("job", metavar="ID")
@click.option("--verbose", is_flag=True, help="Show the events as well.")
@watch_options
@json_option
@pass_session
def status(session: Session, job: str, verbose: bool, watch: bool, interval: float) -> None:
    """Show one Job. --watch ends with the Job."""

    def fetch() -> Any:
        return session.api.get(path("workloads", job), {"verbose": verbose or None})

    def render(seen: dict[str, Any]) -> list[str]:
        return view.status(seen, session.clock.now_ms(), verbose)

    if watch:
        from anycloud_cli.watching import watch as follow

        follow(session, fetch, render, lambda seen: seen["workload"]["state"] in view.TERMINAL, interval)
        return
    seen = fetch()
    session.out.result(seen, render(seen))


@click.command()
@click.argument("job", metavar="ID")
@json_option
@pass_session
def terminate(session: Session, job: str) -> None:
    """Ask for the end of a Job. Returns as soon as that is recorded."""
    answer = session.api.request("DELETE", path("workloads", job))
    session.out.result(answer, [answer["message"]])


@click.command()
@click.argument("job", metavar="ID")
@click.option("--timeout", type=Duration(), metavar="SECONDS", help="Longest time until the Job is picked up.")
@wait_option("Wait until the Job is completed, with the exit codes of `anycloud wait`.")
@json_option
@pass_session
def resubmit(session: Session, job: str, timeout: float | None, wait: bool) -> int:
    """Run a finished Job again, under the same id."""
    body = {} if timeout is None else {"timeout": timeout}
    answer = session.api.request("POST", path("workloads", job, "resubmissions"), body=body)
    if not wait:
        session.out.result(answer, [answer["message"]])
        return 0
    from anycloud_cli.waiting import WorkloadTarget, follow

    if session.out.as_json:
        session.out.record(answer)
    return follow(session, [WorkloadTarget(session.api, job)])
