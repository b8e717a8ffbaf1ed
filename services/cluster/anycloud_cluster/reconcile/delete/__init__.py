"""Ending a cluster: its phases, in order. Each waits until the provider has confirmed what it released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from anycloud_cluster.domain.resource import Kind
from anycloud_cluster.reconcile.delete import close, resources
from anycloud_cluster.reconcile.work import Step, Work

Phase = Callable[[Work], Awaitable[Step]]

PHASES: Final[Mapping[str, Phase]] = {
    "machine": partial(resources.run, Kind.MACHINE),
    "bucket": partial(resources.run, Kind.BUCKET),
    "dns-record": partial(resources.run, Kind.DNS_RECORD),
    "certificate": partial(resources.run, Kind.CERTIFICATE),
    "address": partial(resources.run, Kind.ADDRESS),
    "network": partial(resources.run, Kind.NETWORK),
    "close": close.run,
}
