"""Bootstrap tokens: made right before a VM is bought, gone as soon as its Node exists or its VM is given up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from anycloud_common.kube import names
from anycloud_common.reconcile import Done, Outcome, Requeue

from anycloud_nodepool.domain import join
from anycloud_nodepool.domain.model import Attempt, Stage
from anycloud_nodepool.reconcile.scope import Scope
from anycloud_nodepool.store import attempts
from anycloud_nodepool.store.attempts import Sealed
from anycloud_nodepool.store.tables import ATTEMPT


async def remove(scope: Scope) -> Outcome:
    """Ends the tokens that have done their work."""
    useless = [a for a in scope.attempts if not a.token_gone and a.stage not in (Stage.BUYING, Stage.JOINING)]
    if not useless or not scope.sighted:
        return Done()
    removed, failures = await scope.each(useless, lambda attempt: _delete(scope, attempt))
    for attempt, _ in removed:
        scope.put(replace(attempt, token_gone=True))
    await scope.flush()
    return scope.trouble(failures[0]) if failures else Done()


async def renew(scope: Scope) -> Outcome:
    """Gives tokens that are about to expire more time while their VMs still have to join."""
    waiting = [attempt for attempt in scope.attempts if attempt.stage is Stage.JOINING]
    if not waiting or not scope.sighted:
        return Done()
    late = scope.now.ms + join.RENEW_MS
    old = [attempt for attempt in waiting if attempt.token_expires_at < late]
    if old:
        secrets = await scope.tools.store.read(partial(attempts.sealed, attempt_ids=[a.id for a in old]))
        # Between making and recording, a new Secret counts as one whose UID isn't known, or it would outlive its VM.
        old = [replace(attempt, token_uid=None) for attempt in old if attempt.id in secrets]
        for attempt in old:
            scope.put(attempt)
        await scope.flush()
        _, failures = await scope.each(old, lambda attempt: _replace(scope, attempt, secrets[attempt.id]))
        await scope.flush()
        if failures:
            return scope.trouble(failures[0])
    next_ms = min((a.token_expires_at for a in waiting if a.token_expires_at >= late), default=late + join.RENEW_MS)
    return Requeue((next_ms - late) / 1000 + 1)


async def make(scope: Scope, attempt: Attempt, sealed: Sealed) -> Attempt:
    """The attempt with its token valid. Repeating it makes no second one."""
    token = join.Token(attempt.token_id, open_token(scope, attempt, sealed))
    expires_at = attempt.token_expires_at
    if expires_at < scope.now.ms + join.RENEW_MS:
        expires_at = scope.now.ms + join.TOKEN_MS
    body = join.token_secret(token, scope.id, attempt.id, expires_at)
    made = await scope.tools.kube.ensure("Secret", body, join.token_owner(scope.id, attempt.id))
    return replace(attempt, token_uid=made["metadata"]["uid"], token_expires_at=expires_at)


def open_token(scope: Scope, attempt: Attempt, sealed: Sealed) -> str:
    return scope.tools.cipher.open(sealed.token, ATTEMPT.name, "sealed_token", attempt.id).decode()


async def _replace(scope: Scope, attempt: Attempt, sealed: Sealed) -> None:
    await _delete(scope, attempt)
    scope.put(await make(scope, attempt, sealed))


async def _delete(scope: Scope, attempt: Attempt) -> None:
    """Deletes the token's Secret, also one whose UID a kill kept from being recorded."""
    name, uid = join.secret_name(attempt.token_id), attempt.token_uid
    if uid is None:
        found = await scope.tools.kube.get("Secret", name, names.NAMESPACE_SYSTEM)
        labels = (found or {}).get("metadata", {}).get("labels") or {}
        if found is None or labels.get(names.LABEL_ATTEMPT) != attempt.id:
            return
        uid = found["metadata"]["uid"]
    await scope.tools.kube.delete("Secret", name, names.NAMESPACE_SYSTEM, uid)
