"""Deployments in text. The layout is fixed by the specification, character by character."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from anycloud_cli.durations import age
from anycloud_cli.output import one_line, table
from anycloud_cli.views.layout import DONE, FAILED, INDENT, UNDER_WAY, fields, head, state

_HEADER = ("NAME", "ID", "NODE POOL", "REVISION", "JOBS", "AGE", "STATE")
_LABEL_WIDTH = len("Readiness probe") + 2
_SHOWN, _SHOWN_VERBOSE = 3, 10
_FINISHED = ("completed", "failed", "errored", "invalid", "terminated")
_SIGNS = {"starting": UNDER_WAY, "running": DONE, "failed": FAILED}


def listing(deployments: Iterable[dict[str, Any]], now_ms: int) -> list[str]:
    """One row a Deployment, from stored facts only."""
    return table(_HEADER, (_row(deployment, now_ms) for deployment in deployments))


def _row(deployment: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    return (
        deployment["name"],
        deployment["id"],
        deployment["nodePoolId"],
        str(deployment["generation"]),
        _slots(deployment),
        age(deployment["createdAt"], now_ms),
        _stored_state(deployment),
    )


def _slots(deployment: dict[str, Any]) -> str:
    slots = deployment["maxConcurrentJobsPerReplica"] * deployment["replicas"]
    return f"{deployment['jobs']['unreleased']}/{slots}"


def _stored_state(deployment: dict[str, Any]) -> str:
    if deployment["deletedAt"] is not None:
        return "terminated"
    return state("terminated", True) if deployment["deletionRequestedAt"] is not None else ""


def status(deployment: dict[str, Any], now_ms: int, verbose: bool = False) -> list[str]:
    """One Deployment with its live observation (`status` isn't null)."""
    seen = deployment["status"]
    lines = head(state(seen["state"], seen["releasing"]))
    lines += fields(_fields(deployment, now_ms, verbose), _LABEL_WIDTH)
    return lines + _progress(deployment)


def _fields(deployment: dict[str, Any], now_ms: int, verbose: bool) -> list[tuple[str, str | None]]:
    seen = deployment["status"]
    pod = [("Pod", seen["podName"]), ("Pod UID", seen["podUid"]), ("Container ID", seen["containerId"])]
    return [
        ("Name", deployment["name"]),
        ("ID", deployment["id"]),
        ("Node pool", deployment["nodePoolId"]),
        ("Image", deployment["image"]),
        ("Revision", _revision(seen) if verbose else str(deployment["generation"])),
        *(pod if verbose else []),
        ("Jobs", _jobs(deployment)),
        ("Secrets", ", ".join(deployment["secretNames"]) or None),
        ("Readiness probe", _probe(deployment["readinessProbe"])),
        ("Age", age(deployment["createdAt"], now_ms)),
        *_waiting_on(seen["blockingJobs"], verbose),
    ]


def _revision(seen: dict[str, Any]) -> str:
    applied, in_pod = seen["appliedGeneration"], seen["podGeneration"]
    return " · ".join(
        (
            f"{seen['requestedGeneration']} requested",
            "none applied" if applied is None else f"{applied} applied",
            "none in Pod" if in_pod is None else f"{in_pod} in Pod",
        )
    )


def _jobs(deployment: dict[str, Any]) -> str:
    jobs = deployment["jobs"]
    waiting = [f"{jobs[kind]} {kind}" for kind in ("queued", "retrying") if jobs[kind]]
    return " · ".join([_slots(deployment), *waiting])


def _probe(probe: dict[str, Any] | None) -> str | None:
    if probe is None:
        return None
    timings = ", ".join(f"{name}={value}" for name, value in probe.items() if name != "exec")
    command = json.dumps(probe["exec"]["command"], ensure_ascii=False)
    return f"exec: {command}" + (f" ({timings})" if timings else "")


def _waiting_on(blocking: dict[str, Any], verbose: bool) -> list[tuple[str, str | None]]:
    jobs = [_blocking_job(job, verbose) for job in blocking["jobs"]]
    if not verbose:
        left = blocking["total"] - min(len(jobs), _SHOWN)
        more = f" · {left} more" if left > 0 else ""
        return [("Waiting on", ", ".join(jobs[:_SHOWN]) + more)] if jobs else []
    labels = ["Waiting on", *[""] * len(jobs)]
    return list(zip(labels, jobs[:_SHOWN_VERBOSE], strict=False))


def _blocking_job(job: dict[str, Any], verbose: bool) -> str:
    doing = "cleaning up" if job["state"] in _FINISHED else job["state"]
    revision = f", revision {job['generation']}" if verbose and job["generation"] is not None else ""
    return f"{job['id']} ({doing}{revision})"


def _progress(deployment: dict[str, Any]) -> list[str]:
    """The rollout that is under way or was the last, and the reason of the state unless the rollout tells it."""
    seen = deployment["status"]
    upgrade = seen["upgrade"]
    if upgrade is None or seen["state"] == "terminated":
        return _reason(seen)
    lines = _upgrade(upgrade, deployment["image"], seen["reason"])
    told = upgrade["state"] != "running" or seen["ready"]
    return lines if told else [*lines, *_reason(seen)]


def _upgrade(upgrade: dict[str, Any], image: str, reason: str) -> list[str]:
    told = "running" if upgrade["state"] == "running" else _told(upgrade["state"], reason)
    return ["", f"{INDENT}Upgrade {upgrade['number']} · {image}", f"{INDENT}{_SIGNS[upgrade['state']]} pod  {told}"]


def _reason(seen: dict[str, Any]) -> list[str]:
    """Why the Deployment is in its state."""
    name, reason = seen["state"], one_line(seen["reason"])
    if name == "running":
        line = f"{DONE if seen['ready'] else FAILED} ready  {reason}"
    elif name == "terminated":
        line = f"{UNDER_WAY if seen['releasing'] else DONE} {'releasing' if seen['releasing'] else 'deleted'}  {reason}"
    else:
        line = f"{_SIGNS.get(name, UNDER_WAY)} pod  {_told(name, reason)}"
    return ["", f"{INDENT}{line}".rstrip()]


def _told(name: str, reason: str) -> str:
    return f"{name}: {one_line(reason)}" if reason else name
