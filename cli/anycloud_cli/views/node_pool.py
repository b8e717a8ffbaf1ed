"""Node pools in text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anycloud_cli.durations import age
from anycloud_cli.output import MISSING, one_line, table
from anycloud_cli.views.layout import INDENT, fields, head, location, state

_HEADER = ("NAME", "ID", "LOCATION", "VM TYPE", "VMS", "AGE", "STATE")
_LABEL_WIDTH = len("Last error:") + 1


def listing(pools: Iterable[dict[str, Any]], now_ms: int) -> list[str]:
    """One row a pool; `VMS` is ready VMs over wanted ones."""
    return table(_HEADER, (_row(pool, now_ms) for pool in pools))


def _row(pool: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    return (
        pool["name"],
        pool["id"],
        location(pool),
        ",".join(pool["vmTypes"]),
        f"{pool['capacity']['readyVmCount']}/{pool['maxVmCount']}",
        age(pool["createdAt"], now_ms),
        state(pool["state"], pool["releasing"]),
    )


def status(pool: dict[str, Any], now_ms: int) -> list[str]:
    """One pool; what Kubernetes holds of it stays inside the API, but for the ingress release."""
    counts = pool["capacity"]
    vms = " · ".join(f"{counts[f'{kind}VmCount']} {kind}" for kind in ("ready", "starting", "draining"))
    shown = fields(
        (
            ("Name:", pool["name"]),
            ("ID:", pool["id"]),
            ("Cluster:", pool["clusterId"]),
            ("Cloud:", location(pool)),
            ("VM type:", ", ".join(pool["vmTypes"])),
            ("VMs:", vms),
            ("Used by:", _references(pool["liveReferences"])),
            ("Age:", age(pool["createdAt"], now_ms)),
            ("Last error:", pool["lastError"]),
        ),
        _LABEL_WIDTH,
    )
    return head(state(pool["state"], pool["releasing"])) + shown + _ingress(pool["ingress"])


def _references(count: int) -> str:
    return f"{count} Deployment or Service" if count == 1 else f"{count} Deployments and Services"


def _ingress(ingress: dict[str, Any]) -> list[str]:
    release = ingress["release"]
    address = ingress["entryIp"] or MISSING
    if release is None:
        return ["", f"{INDENT}Ingress entry: {address}"] if ingress["entryIp"] else []
    lines = (f"Ingress entry: {address} — {_release(release)}", f"Ingress Traefik: {_traefik(release)}")
    return ["", *(INDENT + one_line(line) for line in lines)]


def _release(release: dict[str, Any]) -> str:
    job = release["helmJob"]
    if job is None:
        return f"release {release['state']}"
    ended = f": {job['message']}" if job["message"] else ""
    return f"release {release['state']} (helm job {job['phase']}{ended})"


def _traefik(release: dict[str, Any]) -> str:
    pods = release["daemonSet"] or {"ready": 0, "desired": 0, "entryNodeReady": False}
    node = "Ready" if pods["entryNodeReady"] else "not Ready"
    event = f" — last event: {release['lastEvent']}" if release["lastEvent"] else ""
    return f"{pods['ready']}/{pods['desired']} ready, entry Node {node}{event}"
