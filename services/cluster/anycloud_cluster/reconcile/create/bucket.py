"""The bucket for backups: a managed one is made, versioned; one of the user's was checked before and stays as it is."""

from __future__ import annotations

from anycloud_cluster.domain.resource import Kind
from anycloud_cluster.reconcile.create.resources import awaited
from anycloud_cluster.reconcile.work import Next, Step, Work


async def run(work: Work) -> Step:
    if not work.cluster.bucket_managed:
        return Next()
    row = await work.ensure("bucket", Kind.BUCKET, work.cluster.bucket or "", {})
    return await awaited(work, row) or Next()
