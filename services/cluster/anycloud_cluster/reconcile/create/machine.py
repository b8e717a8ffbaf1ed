"""The one management VM. Its keys are stored before it is asked for, and its token never buys a second one."""

from __future__ import annotations

from typing import Any

from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.keys import new_keys
from anycloud_cluster.domain.resource import Kind
from anycloud_cluster.reconcile.create.resources import awaited
from anycloud_cluster.reconcile.work import Next, Step, Work


async def run(work: Work) -> Step:
    cluster = work.cluster
    if cluster.sealed_keys is None:
        await work.save(sealed_keys=work.sealed("sealed_keys", new_keys()))
    spec: dict[str, Any] = {
        "vm_type": cluster.vm_type,
        "image": "default",
        "network": cluster.token("network"),
        "address": cluster.token("address"),
        "labels": {},
    }
    user_data = k3s.user_data(work.secret("sealed_keys"))
    row = await work.ensure("machine", Kind.MACHINE, machine_name(cluster.id), spec, user_data=user_data)
    if step := await awaited(work, row):
        return step
    await work.save(address=row.address, ssh_port=row.ssh_port, endpoint=f"https://{row.address}:{k3s.API_PORT}")
    return Next()


def machine_name(cluster_id: str) -> str:
    return f"anycloud-{cluster_id}-management"
