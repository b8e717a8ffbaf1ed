"""`anycloud logs`: the output of a Deployment's newest Pod."""

from __future__ import annotations

from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.failures import ApiRefusal, Failure
from anycloud_cli.options import json_option
from anycloud_cli.session import Session, pass_session


@click.command()
@click.argument("deployment", metavar="ID-OR-ACTIVE-NAME")
@click.option("--follow", "-f", is_flag=True, help="Go on as new lines come.")
@click.option("--tail", type=click.IntRange(min=0), metavar="COUNT", help="Only the last lines.")
@click.option("--previous", is_flag=True, help="Only the run before the current one.")
@json_option
@pass_session
def logs(session: Session, deployment: str, follow: bool, tail: int | None, previous: bool) -> None:
    """Print the output of a Deployment's newest Pod, Ready or not, with the previous run of a crashing container."""
    query = {"follow": follow or None, "previous": previous or None, "tail": tail}
    run: Any = None
    try:
        for line in session.api.lines(path("deployments", deployment, "logs"), query):
            if session.out.as_json:
                session.out.record(line)
                continue
            if line["previous"] != run:
                _announce(session, run, line)
                run = line["previous"]
            session.out.text(line["text"])
    except ApiRefusal as refusal:
        raise _for_a_job(session, deployment, refusal) from refusal


def _announce(session: Session, run: bool | None, line: dict[str, Any]) -> None:
    """Tells the two runs of a crashing container apart, without touching what stdout holds of either."""
    if line["previous"]:
        session.out.note(f"Previous run of {line['podName']}:")
    elif run is not None:
        session.out.note(f"Current run of {line['podName']}:")


def _for_a_job(session: Session, reference: str, refusal: ApiRefusal) -> Failure:
    """What was given may be a Job's id, and a Job of a Deployment has no logs of its own."""
    if refusal.code != "DEPLOYMENT_NOT_FOUND":
        return refusal
    try:
        job = session.api.get(path("workloads", reference))["workload"]
    except Failure:
        return refusal
    home = job["deploymentId"]
    said = f"Job {reference} runs inside Deployment {home}, whose output it shares; a Job has no logs of its own."
    return Failure(said, next_command=f"anycloud logs {home}") if home else refusal
