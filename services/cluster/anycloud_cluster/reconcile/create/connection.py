"""The installer's own way into the cluster, and the cluster's identity, bound to the record once.

The host's admin certificate stays on the VM: what leaves it is the token of an account made for this, and the CA.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.ports import Connection, OutsideError, SshSession
from anycloud_cluster.reconcile.work import Next, Permanent, Step, Wait, Work

_LOOK_S: Final = 1.0


async def run(work: Work) -> Step:
    if work.cluster.sealed_connection is None:
        connection = await _made(work)
        if connection is None:
            return Wait(_LOOK_S)
    else:
        connection = Connection(**work.secret("sealed_connection"))
    uid = await _identity(work, connection)
    recorded = work.cluster.kubernetes_identity
    if recorded is not None and recorded != uid:
        raise Permanent(
            f"The control plane at {connection.endpoint} has the kube-system UID {uid}; {recorded} is recorded for "
            f"cluster {work.cluster.name}, so this is another one and nothing is written to it."
        )
    if work.cluster.sealed_connection is None:
        stored = {"endpoint": connection.endpoint, "ca": connection.ca, "token": connection.token}
        sealed = work.sealed("sealed_connection", stored)
        await work.save(sealed_connection=sealed, ca=connection.ca, kubernetes_identity=uid, connected=True)
    return Next()


async def _made(work: Work) -> Connection | None:
    """None while K3s hasn't issued the token yet."""
    async with work.outside.ssh.open(work.ssh_target()) as session:
        await _applied(session)
        token = await _token(session)
        if token is None:
            return None
        ca = await session.run(k3s.SERVER_CA)
    if ca.status != 0 or not ca.stdout.strip():
        raise OutsideError("unreachable", f"the server's CA can't be read on the VM: {ca.stderr.strip()}")
    return Connection(work.cluster.endpoint or "", ca.stdout, token)


async def _applied(session: SshSession) -> None:
    applied = await session.run(k3s.APPLY, k3s.installer_account())
    if applied.status != 0:
        raise OutsideError("unreachable", f"the installer's account can't be made: {applied.stderr.strip()}")


async def _token(session: SshSession) -> str | None:
    answer = await session.run(k3s.GET_TOKEN)
    if answer.status != 0:
        raise OutsideError("unreachable", f"the installer's token can't be read: {answer.stderr.strip()}")
    try:
        encoded = (json.loads(answer.stdout).get("data") or {}).get("token")
        return base64.b64decode(encoded, validate=True).decode() if encoded else None
    except (ValueError, AttributeError, binascii.Error):
        raise OutsideError("unreachable", "the installer's token can't be read: no Secret in the answer") from None


async def _identity(work: Work, connection: Connection) -> str:
    kubernetes = work.outside.clusters.open(connection)
    try:
        return await kubernetes.uid()
    finally:
        await kubernetes.close()
