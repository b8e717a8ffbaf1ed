"""The ServiceAccount by whose tokens workers are known."""

from __future__ import annotations

from anycloud_common.kube import Foreign
from anycloud_common.reconcile import Done, Outcome
from anycloud_common.store import Tx

from anycloud_deployment.domain import manifest
from anycloud_deployment.domain.ports import Native
from anycloud_deployment.reconcile.again import start_revision
from anycloud_deployment.reconcile.objects import current
from anycloud_deployment.reconcile.scope import Scope

_KIND = "ServiceAccount"
RECREATED = "service-account-recreated"


async def ensure(scope: Scope) -> Outcome:
    """Makes the ServiceAccount. Where somebody made it anew, the tokens of running Pods are worth nothing any more,
    so one revision is started, whose Pods get tokens of the new one."""
    known = scope.deployment.natives.service_account_uid
    if await current(scope, _KIND, known) is not None:
        return Done()
    await scope.take()
    account = await _made(scope)
    anew = known is not None and scope.deployment.applied is not None

    def note(tx: Tx) -> dict[str, object]:
        return {"service_account_uid": account.uid, **(start_revision(scope, tx) if anew else {})}

    await scope.change(note, event=RECREATED if anew else None)
    return Done()


async def _made(scope: Scope) -> Native:
    """The account of that name: ours, or the one that somebody put in its place, which then serves as well. Raises
    Foreign for one that was there before ours."""
    try:
        return await scope.tools.objects.create(_KIND, manifest.service_account(scope.place))
    except Foreign:
        found = await scope.tools.objects.find(_KIND, scope.namespace, scope.id)
        if scope.deployment.natives.service_account_uid is None or found is None:
            raise
        return found
