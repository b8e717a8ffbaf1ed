"""`anycloud logs`: the output of a Deployment's newest Pod, or of a Job that brings its own image."""

from __future__ import annotations

from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.failures import ApiRefusal, Failure
from anycloud_cli.options import json_option
from anycloud_cli.session import Session, pass_session

_NOT_RUNNING = ("queued", "downloading", "starting")


@click.command()
@click.argument("reference", metavar="DEPLOYMENT-OR-JOB")
@click.option("--follow", "-f", is_flag=True, help="Go on as new lines come; with a Job until it has ended.")
@click.option("--tail", type=click.IntRange(min=0), metavar="COUNT", help="Only the last lines.")
@click.option("--previous", is_flag=True, help="Only the run before the current one.")
@json_option
@pass_session
def logs(session: Session, reference: str, follow: bool, tail: int | None, previous: bool) -> None:
    """Print the output of a Deployment's newest Pod, Ready or not, with the previous run of a crashing container; or
    that of a Job's container, and of a Job that has ended what was kept."""
    query = {"follow": follow or None, "previous": previous or None, "tail": tail}
    try:
        _print(session, path("deployments", reference, "logs"), query)
    except ApiRefusal as refusal:
        job = _job(session, reference, refusal)
        if job["deploymentId"]:
            raise _shared(reference, job["deploymentId"]) from refusal
        if previous:
            raise Failure(f"Job {reference} runs once: there is no previous run.") from refusal
        if follow and job["state"] in _NOT_RUNNING:
            session.out.remark(f"Workload is {job['state']}; its container is not running yet. Waiting...")
        _print(session, path("workloads", reference, "logs"), {"follow": follow or None, "tail": tail})


def _print(session: Session, at: str, query: dict[str, Any]) -> None:
    run: Any = None
    for line in session.api.lines(at, query):
        if session.out.as_json:
            session.out.record(line)
            continue
        if line["previous"] != run:
            _announce(session, run, line)
            run = line["previous"]
        session.out.text(line["text"])


def _announce(session: Session, run: bool | None, line: dict[str, Any]) -> None:
    """Tells the two runs of a crashing container apart, without touching what stdout holds of either."""
    if line["previous"]:
        session.out.note(f"Previous run of {line['podName']}:")
    elif run is not None:
        session.out.note(f"Current run of {line['podName']}:")


def _job(session: Session, reference: str, refusal: ApiRefusal) -> dict[str, Any]:
    """The Job that was meant, as there is no such Deployment. Raises the refusal when there is no such Job either."""
    if refusal.code != "DEPLOYMENT_NOT_FOUND":
        raise refusal
    try:
        job: dict[str, Any] = session.api.get(path("workloads", reference))["workload"]
    except Failure:
        raise refusal from None
    return job


def _shared(reference: str, home: str) -> Failure:
    said = f"Job {reference} runs inside Deployment {home}, whose output it shares; a Job has no logs of its own."
    return Failure(said, next_command=f"anycloud logs {home}")
