"""The API's release: its intent is recorded once, as revision 1, and applied as one HelmChart and its Secret."""

from __future__ import annotations

from typing import Final

from anycloud_common.kube import Foreign
from anycloud_common.release_values import ApiValues, CheckpointValues, ClusterValues, OwnerValues, ReleaseValues

from anycloud_cluster.domain import charts
from anycloud_cluster.domain.credential import TAG
from anycloud_cluster.reconcile.create.resources import awaited, ensured_record
from anycloud_cluster.reconcile.work import Next, Permanent, Step, Work

REVISION: Final = 1


async def run(work: Work) -> Step:
    if step := await _record_intent(work):
        return step
    cluster = work.cluster
    values, owner = await _values(work), charts.owner_labels(cluster)
    kubernetes = work.kubernetes()
    try:
        await kubernetes.ensure("Secret", charts.api_values_secret(cluster, values), owner)
        await kubernetes.ensure("HelmChart", charts.api_chart(cluster, values), owner)
    except Foreign as error:
        raise Permanent(f"{error}; remove it first: {error.remedy}") from None
    finally:
        await kubernetes.close()
    await work.save(released=True)
    return Next()


async def _record_intent(work: Work) -> Step | None:
    """From here on a deletion asks the hosted API first, as it may be there."""
    cluster = work.cluster
    if cluster.release_revision:
        return None
    url = work.outside.names.url(cluster.domain)
    if url is None:  # the sandbox's exception: there the record comes first, as it makes the URL
        record = await ensured_record(work)
        if step := await awaited(work, record):
            return step
        url = record.url
    text = f"Release {REVISION} is to run {cluster.api_image} at {url}."
    await work.record("release.seeded", text, api_url=url, release_revision=REVISION)
    return None


async def _values(work: Work) -> ReleaseValues:
    cluster = work.cluster
    document = await work.credential()
    return ReleaseValues(
        cluster=ClusterValues(
            id=cluster.id,
            name=cluster.name,
            identity=cluster.kubernetes_identity or "",
            endpoint=cluster.endpoint or "",
            ca=cluster.ca or "",
            address=cluster.address or "",
        ),
        api=ApiValues(
            image=cluster.api_image,
            version=cluster.api_version,
            chart_version=cluster.chart_version,
            revision=cluster.release_revision,
            url=cluster.api_url or "",
        ),
        owner=OwnerValues(cluster.owner_user_id, cluster.owner_username),
        checkpoint=CheckpointValues(
            provider=str(document[TAG]),
            bucket=cluster.bucket or "",
            region=cluster.region or "",
            managed=cluster.bucket_managed,
            credential={key: str(value) for key, value in document.items()},
        ),
        sandbox_url=work.outside.sandbox_url,
    )
