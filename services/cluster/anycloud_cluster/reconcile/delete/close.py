"""The end of the record: no secret is left in it, and nothing is held any more."""

from __future__ import annotations

from anycloud_cluster.reconcile.work import Next, Step, Work


async def run(work: Work) -> Step:
    await work.let_go_of_credential(
        sealed_connection=None,
        sealed_keys=None,
        sealed_github_token=None,
        connected=False,
        address=None,
        endpoint=None,
        api_url=None,
        accepting=False,
    )
    return Next()
