"""SSH to the management VM. asyncssh is imported at first use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from anycloud_cluster.domain.k3s import USER
from anycloud_cluster.domain.ports import Output, OutsideError, SshSession, SshTarget

_CONNECT_S: Final = 10.0
_COMMAND_S: Final = 300.0  # downloads K3s


class AsyncSsh:
    """Trusts the one host key that was put into the machine, offers the one user key, and reads nobody's settings."""

    @asynccontextmanager
    async def open(self, target: SshTarget) -> AsyncIterator[SshSession]:
        import asyncssh

        asyncssh.set_log_level("WARNING")  # it would tell of every command
        where = f"{target.address}:{target.port}"
        try:
            connection = await asyncssh.connect(
                target.address,
                target.port,
                username=USER,
                client_keys=[asyncssh.import_private_key(target.user_key)],
                known_hosts=([asyncssh.import_public_key(target.host_key)], [], []),
                config=None,
                agent_path=None,
                connect_timeout=_CONNECT_S,
                keepalive_interval=15,
            )
        except asyncssh.HostKeyNotVerifiable:
            # A machine that is still booting may show the key of its image: nothing was sent to it.
            raise OutsideError("unreachable", f"the VM at {where} doesn't show its own host key (yet)") from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise OutsideError("unreachable", f"SSH to the VM at {where}: {reason}") from None
        async with connection:
            yield _Session(connection, where)


class _Session:
    def __init__(self, connection: Any, where: str) -> None:
        self._connection = connection
        self._where = where

    async def run(self, command: str, stdin: str = "") -> Output:
        import asyncssh

        try:
            async with asyncio.timeout(_COMMAND_S):
                done = await self._connection.run(command, input=stdin, check=False)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise OutsideError("unreachable", f"SSH to the VM at {self._where}: {reason}") from None
        return Output(done.exit_status if done.exit_status is not None else -1, str(done.stdout), str(done.stderr))
