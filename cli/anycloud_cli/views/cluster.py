"""Clusters in text, in the layout of a Workload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anycloud_cli.durations import age
from anycloud_cli.output import MISSING, table
from anycloud_cli.views.layout import fields, head, location, state

_HEADER = ("NAME", "ID", "LOCATION", "VM TYPE", "AGE", "ADDRESS", "API", "STATE")
_LABEL_WIDTH = len("Last error:") + 1
RELEASING = "terminated · releasing VM (still billing)"


def listing(clusters: Iterable[dict[str, Any]], now_ms: int) -> list[str]:
    """One row a cluster."""
    return table(_HEADER, (_row(cluster, now_ms) for cluster in clusters))


def _row(cluster: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    return (
        cluster["name"],
        cluster["id"],
        location(cluster),
        cluster["vmType"] or MISSING,
        age(cluster["createdAt"], now_ms),
        cluster["address"] or MISSING,
        cluster["apiVersion"] or MISSING,
        state(cluster["state"], cluster["releasing"]),
    )


def status(cluster: dict[str, Any], now_ms: int, sandbox: bool = False) -> list[str]:
    """One cluster. What only its installer knows is left out on a hosted API."""
    cloud = None if cluster["cloudProvider"] is None else location(cluster)
    return head(state(cluster["state"], cluster["releasing"])) + fields(
        (
            ("Name:", cluster["name"]),
            ("ID:", cluster["id"]),
            ("Cloud:", f"{cloud or ''} (sandbox)".strip() if sandbox else cloud),
            ("VM:", cluster["vmType"]),
            ("Address:", cluster["address"]),
            ("Kubernetes:", cluster["k3sVersion"]),
            ("API:", cluster["apiVersion"]),
            ("URL:", cluster["managementApiUrl"]),
            ("Node pools:", str(cluster["activeNodePoolCount"])),
            ("Connected:", None if cluster["connected"] or cluster["state"] != "running" else "no"),
            ("Age:", age(cluster["createdAt"], now_ms)),
            ("Last error:", cluster["lastError"]),
        ),
        _LABEL_WIDTH,
    )


def next_step(cluster: dict[str, Any], active_url: str) -> str | None:
    """The command that follows on what is shown, or None."""
    url = cluster["managementApiUrl"]
    if cluster["state"] == "running" and url and url != active_url:
        return f"anycloud api use {url}"
    if cluster["state"] != "failed":
        return None
    if (cluster["lastError"] or "").startswith("Delete failed:"):
        return f"anycloud cluster delete {cluster['name']}"
    return resume(cluster)


def resume(cluster: dict[str, Any]) -> str:
    """The command that continues a cluster's creation. Its credential's name isn't part of what the API shows."""
    zone = f" --zone {cluster['zone']}" if cluster["zone"] else ""
    place = f"--region {cluster['region']}{zone} --vm-type {cluster['vmType']}"
    return f"anycloud cluster create {cluster['name']} --credentials <name> {place}"
