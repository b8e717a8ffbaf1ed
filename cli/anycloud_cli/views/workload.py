"""Jobs in text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from anycloud_cli.durations import age, length, moment
from anycloud_cli.output import MISSING, one_line, table
from anycloud_cli.views.layout import INDENT, fields, head

TERMINAL = ("completed", "errored", "failed", "invalid", "terminated")
_HEADER = ("ID", "DEPLOYMENT", "NODE POOL", "AGE", "TOOK", "STATE")
_LABEL_WIDTH = len("Deployment:") + 1


def listing(workloads: Iterable[dict[str, Any]], now_ms: int) -> list[str]:
    """One row a Job, newest first as the API sends them."""
    return table(_HEADER, (_row(workload, now_ms) for workload in workloads))


def _row(workload: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    ended = workload["completedAt"]
    return (
        workload["id"],
        workload["deploymentId"] or MISSING,
        workload.get("nodePoolName") or MISSING,
        age(workload["startedAt"], now_ms),
        MISSING if ended is None else length(ended - workload["startedAt"]),
        workload["state"],
    )


def status(answer: dict[str, Any], now_ms: int, verbose: bool = False) -> list[str]:
    """One Job with its place in the queue, its retry and, when verbose, its events."""
    job = answer["workload"]
    shown = fields(
        (
            ("ID:", job["id"]),
            ("Deployment:", job["deploymentId"]),
            ("Node pool:", job.get("nodePoolName")),
            ("Image:", job["image"]),
            ("Command:", shlex.join(job["command"]) if job.get("command") else None),
            ("Secrets:", ", ".join(job.get("secretNames") or ()) or None),
            ("Submitted:", f"{age(job['startedAt'], now_ms)} ago"),
            ("Ended:", _ago(job["completedAt"], now_ms)),
            ("Cleaned up:", _ago(job.get("cleanedAt"), now_ms)),
            ("Queue:", queue(answer)),
            ("Retry:", retry(answer, now_ms)),
            ("Reason:", _why(answer)),
            ("Last error:", job.get("cleanupError")),
        ),
        _LABEL_WIDTH,
    )
    return head(job["state"]) + shown + (_events(answer["events"]) if verbose else [])


def _why(answer: dict[str, Any]) -> str | None:
    """Why a Job ended otherwise than well; of one that brings its own image also what it waits for."""
    job = answer["workload"]
    ended = job["state"] in TERMINAL
    told = job["state"] != "completed" if ended else not job["deploymentId"]
    return reason(answer, ended) if told else None


def _ago(moment_ms: float | None, now_ms: int) -> str | None:
    return None if moment_ms is None else f"{age(moment_ms, now_ms)} ago"


def queue(answer: dict[str, Any]) -> str | None:
    """Place in the Deployment's queue, for a queued Job whose place is known."""
    ahead = answer.get("jobsAhead")
    if ahead is None:
        return None
    return "next" if ahead == 0 else f"{ahead} {'Job' if ahead == 1 else 'Jobs'} ahead"


def retry(answer: dict[str, Any], now_ms: int) -> str | None:
    """The next attempt of a Job that is retried."""
    planned = answer.get("retry")
    if planned is None:
        return None
    return f"attempt {planned['attempt']} in {length(planned['earliestAt'] - now_ms)}"


def reason(answer: dict[str, Any], constants: bool = True) -> str | None:
    """Why the newest event happened, as its metadata tells, unless that says the state once more. Without `constants`
    only what it tells in a sentence."""
    if not answer["events"]:
        return None
    newest = max(answer["events"], key=lambda event: (event["createdAt"], event["id"]))
    metadata = newest["metadata"] or {}
    told = metadata.get("message") or (metadata.get("reason") if constants else None)
    return told if isinstance(told, str) and told != newest["state"] else None


def _events(events: Iterable[dict[str, Any]]) -> list[str]:
    ordered = sorted(events, key=lambda event: (event["createdAt"], event["id"]))
    rows = [(moment(event["createdAt"]), event["state"], _metadata(event["metadata"])) for event in ordered]
    return ["", *(INDENT + line for line in table(("TIME (UTC)", "STATE", "DETAIL"), rows))] if rows else []


def _metadata(metadata: dict[str, Any] | None) -> str:
    return one_line(", ".join(f"{name}={value}" for name, value in (metadata or {}).items()))
