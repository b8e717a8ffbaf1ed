"""The API's name: its DNS record, the origin's certificate, and Traefik, which serves both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycloud_common.kube import Foreign

from anycloud_cluster.domain import charts
from anycloud_cluster.domain.origin import new_origin_key
from anycloud_cluster.domain.ports import Cluster as Kubernetes
from anycloud_cluster.domain.resource import Kind, State
from anycloud_cluster.reconcile.create.resources import awaited, ensured_record
from anycloud_cluster.reconcile.work import Next, Permanent, Step, Work


async def run(work: Work) -> Step:
    cluster = work.cluster
    record = await ensured_record(work)
    if step := await awaited(work, record):
        return step
    kubernetes = work.kubernetes()
    try:
        await _certified(work, kubernetes)
        await _ensured(work, kubernetes, "HelmChart", charts.traefik_chart(cluster))
    finally:
        await kubernetes.close()
    return Next()


async def _certified(work: Work, kubernetes: Kubernetes) -> None:
    """The key is made in memory and written into the cluster alone. If it is lost on the way there, its certificate is
    revoked and the next one has another key; a certificate that was signed without us hearing of it has no key left."""
    secret = await kubernetes.get("Secret", charts.CERTIFICATE, charts.NAMESPACE)
    if secret is not None:
        _check_ours(work, secret)
        return
    for earlier in await work.resources(Kind.CERTIFICATE):
        if earlier.state in (State.PENDING, State.RUNNING):
            await work.release(earlier)
    number = work.cluster.certificates + 1
    await work.save(certificates=number)
    what = f"certificate-{number}"
    row = await work.ensure(what, Kind.CERTIFICATE, work.cluster.domain, {})
    origin = new_origin_key(work.cluster.domain)
    await work.learnt(row, sent_at=work.clock.now_ms())
    signed = await work.outside.names.sign(work.cluster.domain, origin.request, work.github_token())
    await work.learnt(row, provider_id=signed.id, state=State.RUNNING, sent_at=None, confirmed_at=work.clock.now_ms())
    body = charts.certificate_secret(work.cluster, row.id, signed.pem, origin.key)
    await _ensured(work, kubernetes, "Secret", body)


def _check_ours(work: Work, secret: Mapping[str, Any]) -> None:
    labels = secret["metadata"].get("labels") or {}
    if not charts.owner_labels(work.cluster).items() <= labels.items():
        raise Permanent(f"Secret {charts.NAMESPACE}/{charts.CERTIFICATE} exists and does not belong to Anycloud.")


async def _ensured(work: Work, kubernetes: Kubernetes, kind: str, body: dict[str, Any]) -> None:
    try:
        await kubernetes.ensure(kind, body, charts.owner_labels(work.cluster))
    except Foreign as error:
        raise Permanent(f"{error}; remove it first: {error.remedy}") from None
