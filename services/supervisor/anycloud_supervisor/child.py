"""One running process: started so that it is on record before it does anything."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from anycloud_supervisor.identity import Identity

# The gate waits for a word before it becomes the program. A supervisor that is killed before it has recorded the pid
# closes the pipe, and the gate ends with nothing done; afterwards pid and start time stay those of the gate.
_GATE = ("/bin/sh", "-c", 'read -r word && exec "$@" </dev/null', "sh")

# The same for a process that is to be killed with its supervisor, as all of a container is with its first process.
_BOUND = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]) and os.read(0, 1):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execvp(sys.argv[2], sys.argv[2:])
"""


class Child:
    """A process of ours and its end. Ends are seen through the event loop."""

    def __init__(self, process: subprocess.Popen[bytes], identity: Identity, descriptor: int) -> None:
        self.identity = identity
        self._process = process
        self._descriptor = descriptor
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(descriptor, self._reap)

    @staticmethod
    def start(
        argv: Sequence[str],
        env: Mapping[str, str],
        output: int | None,
        on_record: Callable[[Identity], None],
        bound: bool = False,
    ) -> Child:
        """Starts a program; `on_record` writes its identity down before it runs. Raises OSError, also from
        `on_record`, and then nothing has run. `output` is a descriptor for stdout and stderr, None to inherit ours.
        A `bound` program is killed when the supervisor ends in any way."""
        process = subprocess.Popen(  # noqa: S603  (argv is the plan's, no shell reads it)
            [*(_bound_gate() if bound else _GATE), *argv],
            env=dict(env),
            stdin=subprocess.PIPE,
            bufsize=0,
            stdout=output,
            stderr=output,
        )
        assert process.stdin is not None
        try:
            identity = Identity.of(process.pid)
            if identity is None:
                raise OSError(f"{argv[0]} ended before it began")
            on_record(identity)
            process.stdin.write(b"go\n")
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdin.close()
        return Child(process, identity, descriptor)

    @property
    def ended(self) -> bool:
        return self._ended.done()

    async def wait(self) -> int:
        """The exit code; negative for the signal that ended it."""
        return await asyncio.shield(self._ended)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        if not self.ended:
            self._process.send_signal(number)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        if not self._ended.done():
            self._ended.set_result(self._process.wait())


def _bound_gate() -> tuple[str, ...]:
    return (sys.executable, "-IS", "-c", _BOUND, str(os.getpid()))


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
