"""The management VM's network, closed but for its rules, and the address that it keeps for life."""

from __future__ import annotations

from anycloud_cluster.domain.firewall import management_rules
from anycloud_cluster.domain.resource import Kind
from anycloud_cluster.reconcile.create.resources import awaited
from anycloud_cluster.reconcile.work import Next, Step, Work


async def run(work: Work) -> Step:
    name = f"anycloud-{work.cluster.id}"
    network = await work.ensure("network", Kind.NETWORK, name, {"rules": management_rules()})
    address = await work.ensure("address", Kind.ADDRESS, name, {})
    return await awaited(work, network) or await awaited(work, address) or Next()
