"""`anycloud node-pool`."""

from __future__ import annotations

from typing import Any

import click

from anycloud_cli.client import path
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import json_option, require, wait_option
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import node_pool as view

_ALIASES = {"ls": "list", "get": "list", "describe": "status", "terminate": "delete", "rm": "delete"}


@click.group("node-pool", cls=AliasGroup, aliases=_ALIASES)
def node_pool() -> None:
    """VMs that join the cluster."""


@node_pool.command()
@click.argument("name")
@click.option("--cluster", metavar="ID-OR-NAME", help="The cluster; it must be the installation's own.")
@click.option("--credentials", metavar="NAME", help="The credential that buys the VMs.")
@click.option("--region", help="Where the VMs are.")
@click.option("--zone", help="Zone of that region; a single digit on Azure.")
@click.option("--vm-type", metavar="TYPE", help="What the VMs are.")
@click.option("--min-vms", type=int, metavar="COUNT", help="Number of VMs.")
@click.option("--max-vms", type=int, metavar="COUNT", help="The same number: pools have a fixed size.")
@wait_option("Wait until the pool is running, with the exit codes of `anycloud wait`.")
@json_option
@pass_session
def create(session: Session, /, name: str, wait: bool, **given: Any) -> int:
    """Create a node pool. Returns as soon as that is recorded.

    Credential, region, zone and VM type are fixed for the pool's whole life. A pool separates where work is
    scheduled; it is no security or failure boundary.
    """
    flags = ("credentials", "region", "vm_type", "min_vms", "max_vms")
    require({f"--{flag.replace('_', '-')}": given[flag] for flag in flags})
    body = {
        "name": name,
        "cluster": given["cluster"],
        "credentialName": given["credentials"],
        "region": given["region"],
        "zone": given["zone"],
        "vmTypes": [given["vm_type"]],
        "minVmCount": given["min_vms"],
        "maxVmCount": given["max_vms"],
    }
    body = {key: value for key, value in body.items() if value is not None}
    answer = session.api.request("POST", path("node-pools"), body=body)
    pool = answer["nodePool"]
    if not wait:
        follow = f"Follow it with `anycloud node-pool status {pool['name']}`."
        session.out.result(answer, [f"Creating node pool {pool['name']} ({pool['id']}). {follow}"])
        return 0
    from anycloud_cli.waiting import NodePoolTarget
    from anycloud_cli.waiting import follow as wait_for

    if session.out.as_json:
        session.out.record(answer)
    return wait_for(session, [NodePoolTarget(session.api, pool["id"])])


@node_pool.command("list")
@click.option("--cluster", metavar="ID-OR-NAME", help="Only pools of this cluster.")
@json_option
@pass_session
def list_pools(session: Session, cluster: str | None) -> None:
    """List node pools."""
    answer = session.listed(path("node-pools"), {"cluster": cluster})
    session.out.result(answer, view.listing(answer["nodePools"], session.clock.now_ms()))


@node_pool.command()
@click.argument("pool", metavar="ID-OR-NAME")
@json_option
@pass_session
def status(session: Session, pool: str) -> None:
    """Show one node pool."""
    answer = session.api.get(path("node-pools", pool))
    session.out.result(answer, view.status(answer["nodePool"], session.clock.now_ms()))


@node_pool.command()
@click.argument("pool", metavar="ID-OR-NAME")
@json_option
@pass_session
def delete(session: Session, pool: str) -> None:
    """Delete a node pool that nothing uses. Returns as soon as that is recorded."""
    answer = session.api.request("DELETE", path("node-pools", pool))
    found = answer["nodePool"]
    follow = f"Follow it with `anycloud node-pool status {found['id']}`."
    session.out.result(answer, [f"Deleting node pool {found['name']} ({found['id']}). {follow}"])
