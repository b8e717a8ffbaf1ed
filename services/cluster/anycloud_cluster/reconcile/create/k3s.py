"""K3s on the management VM: configuration and install script through SSH's stdin, then its start is awaited."""

from __future__ import annotations

from typing import Final

from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.ports import OutsideError, SshSession
from anycloud_cluster.reconcile.create.machine import machine_name
from anycloud_cluster.reconcile.work import Next, Permanent, Step, Wait, Work

_LOOK_S: Final = 1.0
_CHECKSUM_TEXT: Final = "did NOT match"


async def run(work: Work) -> Step:
    async with work.outside.ssh.open(work.ssh_target()) as session:
        state = (await session.run(k3s.IS_ACTIVE)).stdout.strip()
        if state == "active":
            return Next()
        if state != "activating":
            await _check_architecture(session)
            await _configure(work, session)
            await _install(work, session)
    return Wait(_LOOK_S)


async def _check_architecture(session: SshSession) -> None:
    found = (await session.run(k3s.ARCHITECTURE)).stdout.strip()
    if found != "x86_64":
        raise Permanent(f"The management VM is {found or 'of an unknown architecture'}; only x86_64 is supported.")


async def _configure(work: Work, session: SshSession) -> None:
    cluster = work.cluster
    config = k3s.server_config(
        machine_name(cluster.id), cluster.address or "", work.secret("sealed_keys"), cluster.helm_job_image or ""
    )
    written = await session.run(k3s.WRITE_CONFIG, config)
    if written.status != 0:
        raise OutsideError("unreachable", f"K3s's configuration can't be written on the VM: {written.stderr.strip()}")


async def _install(work: Work, session: SshSession) -> None:
    version, sha256 = work.cluster.k3s_version or "", work.cluster.k3s_sha256 or ""
    done = await session.run(k3s.INSTALL, k3s.install_script(version, sha256))
    if done.status == 0:
        return
    reason = done.stderr.strip()
    if done.status == k3s.CHECKSUM_FAILED or _CHECKSUM_TEXT in reason:
        raise Permanent(f"The downloaded K3s {version} has another checksum than the recorded one: {reason}")
    raise OutsideError("unreachable", f"K3s {version} can't be installed: {reason or f'exit code {done.status}'}")
