"""The active API in text, and the processes of the local one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anycloud_cli.durations import age
from anycloud_cli.output import MISSING, one_line, table
from anycloud_cli.views.layout import DONE, FAILED, INDENT, UNDER_WAY, fields, head

_LABEL_WIDTH = len("Catalog:") + 1
_PROCESSES = ("NAME", "PID", "STATE", "RESTARTS", "LAST EXIT")
_SIGNS = {"starting": UNDER_WAY, "running": DONE, "failed": FAILED}


def status(facts: dict[str, Any], now_ms: int) -> list[str]:
    """What `api status` gathers: the active API, its release, and this machine's processes."""
    kind = " · ".join([facts["kind"], *(["sandbox"] if facts["sandbox"] else [])])
    shown = fields(
        (
            ("URL:", f"{facts['url']} ({kind})"),
            ("Version:", _version(facts)),
            ("Schema:", facts["schemaVersion"]),
            ("Catalog:", facts["catalogVersion"]),
        ),
        _LABEL_WIDTH,
    )
    lines = head(facts["state"]) + shown + _upgrade(facts["upgrade"])
    return lines + (_local(facts["local"], now_ms) if facts["local"] else [])


def _version(facts: dict[str, Any]) -> str | None:
    served: str | None = facts["servedVersion"]
    if served is None or facts["compatible"]:
        return served
    return f"{served}, which this CLI of version {facts['clientVersion']} doesn't fit"


def _upgrade(upgrade: dict[str, Any] | None) -> list[str]:
    if upgrade is None:
        return []
    told = f": {upgrade['lastError']}" if upgrade["lastError"] else ""
    progress = f"{_SIGNS[upgrade['state']]} release  {upgrade['state']}{told}"
    return ["", f"{INDENT}Upgrade {upgrade['number']} · {upgrade['apiVersion']}", INDENT + one_line(progress)]


def _local(local: dict[str, Any], now_ms: int) -> list[str]:
    rows = [_row(process, now_ms) for process in local["processes"]]
    return ["", INDENT + _life(local, now_ms), *(["", *_indented(table(_PROCESSES, rows))] if rows else [])]


def _life(local: dict[str, Any], now_ms: int) -> str:
    if local["alive"]:
        since = f"pid {local['pid']}, for {age(local['startedAt'], now_ms)}"
        return f"Local API {local['phase']} at {local['url']}: {since}, data in {local['dataDir']}"
    if any(process["alive"] for process in local["processes"]):
        return f"Local API without its supervisor (pid {local['pid']}); `anycloud api start` starts it anew"
    return f"Local API not running; its data are in {local['dataDir']}"


def _row(process: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    last = process["lastExit"]
    return (
        process["name"],
        MISSING if process["pid"] is None else str(process["pid"]),
        process["state"],
        str(process["restarts"]),
        "" if last is None else f"{one_line(last['reason'])}, {age(last['at'], now_ms)} ago",
    )


def _indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line for line in lines]
