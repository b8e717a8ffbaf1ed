"""Waiting until the API of the exact release serves the expected version at its URL."""

from __future__ import annotations

from typing import Final

from anycloud_common.kube import names

from anycloud_cluster.domain.ports import OutsideError
from anycloud_cluster.domain.serving import is_awaited, trouble
from anycloud_cluster.reconcile.create import installation
from anycloud_cluster.reconcile.work import Next, Step, Wait, Work

_LOOK_S: Final = 1.0


async def run(work: Work) -> Step:
    cluster = work.cluster
    labels = {names.LABEL_REVISION: str(cluster.release_revision)}
    kubernetes = work.kubernetes()
    try:
        pods = await kubernetes.list("Pod", names.NAMESPACE_API, labels)
        if not is_awaited(pods, cluster.api_image):
            return Wait(_LOOK_S, trouble(pods) or await installation.trouble(work, kubernetes))
    finally:
        await kubernetes.close()
    if step := await _unserved(work):
        return step
    await work.save(served=True)
    return Next()


async def _unserved(work: Work) -> Step | None:
    """Asked through the URL as a user would, with the sign-in of the one who creates it; None once it serves."""
    url, expected = work.cluster.api_url or "", work.cluster.api_version
    hosted = work.outside.hosted
    if not await hosted.answers(url):
        return Wait(_LOOK_S)
    try:
        token = await hosted.exchange(url, work.github_token())
        served = await hosted.served_version(url, token)
    except OutsideError as error:
        if error.kind != "unreachable":
            raise
        return Wait(_LOOK_S)
    return None if served == expected else Wait(_LOOK_S, f"{url} serves version {served}; {expected} is expected.")
