"""Making a cluster: its phases, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from anycloud_cluster.reconcile.create import bucket, connection, dns, k3s, machine, network, release, serve
from anycloud_cluster.reconcile.work import Step, Work

Phase = Callable[[Work], Awaitable[Step]]

PHASES: Final[Mapping[str, Phase]] = {
    "bucket": bucket.run,
    "network": network.run,
    "machine": machine.run,
    "k3s": k3s.run,
    "connection": connection.run,
    "release": release.run,
    "dns": dns.run,
    "serve": serve.run,
}
