"""`anycloud exec` and `ssh`: both say why there is no way into a Job's container."""

from __future__ import annotations

import click

from anycloud_cli.client import path
from anycloud_cli.failures import Failure
from anycloud_cli.session import Session, pass_session


@click.command("exec")
@click.argument("job", metavar="ID")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@pass_session
def exec_command(session: Session, job: str, command: tuple[str, ...]) -> None:
    """Not available: no command can be run in a Job's container."""
    raise _no_way(session, job, "exec")


@click.command()
@click.argument("job", metavar="ID")
@pass_session
def ssh(session: Session, job: str) -> None:
    """Not available: a Job has no VM of its own."""
    raise _no_way(session, job, "ssh")


def _no_way(session: Session, job_id: str, what: str) -> Failure:
    job = session.api.get(path("workloads", job_id))["workload"]
    home = job["deploymentId"]
    where = f"inside Deployment {home}" if home else f"in a container of its own on node pool {job['nodePoolName']}"
    said = f"`{what}` isn't available for Job {job_id}: it runs {where}, and this API lets nobody into containers."
    return Failure(said, next_command=f"anycloud logs {home or job_id}")
