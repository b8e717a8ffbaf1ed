"""One container's keeper: `python shim.py <run directory>`, started by the node agent and outliving it.

It reads one line of JSON from stdin ({"argv", "logBytes"}) and starts nothing before it has it: the agent records the
shim first. It keeps the log, forwards SIGTERM, ends the whole tree at SIGUSR1, and leaves `exit.json`.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(folder: Path) -> None:
    line = sys.stdin.readline()
    if not line:
        return
    order = json.loads(line)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    reader, writer = os.pipe()
    started = time.time()
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _become(order["argv"], writer)
    os.close(writer)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGKILL))
    status = _keep_log(folder / "log", reader, child, order["logBytes"])
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    text = json.dumps({"exitCode": code, "startedAt": started, "finishedAt": time.time()})
    (folder / "exit.new").write_text(text)
    (folder / "exit.new").rename(folder / "exit.json")


def _become(argv: list[str], output: int) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _keep_log(path: Path, reader: int, child: int, limit: int) -> int:
    """Copies the output until the command has ended and all that it left with it; its wait status."""
    ended, status = os.pidfd_open(child), None
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.register(ended, select.POLLIN)
    log = path.open("ab", buffering=0)
    while True:
        ready = dict(poll.poll(None if status is None else 0))
        if reader in ready:
            chunk = os.read(reader, 65536)
            log.write(chunk)
            if log.tell() > limit:
                log = _shorten(path, limit // 2)
            if not chunk:
                poll.unregister(reader)
        elif ended in ready and status is None:
            status = os.waitpid(child, 0)[1]
            poll.unregister(ended)
            _end_rest()
        elif status is not None:
            return status


def _shorten(path: Path, kept: int) -> "object":
    new = path.with_suffix(".new")
    new.write_bytes(path.read_bytes()[-kept:])
    new.rename(path)
    return path.open("ab", buffering=0)


def _end_rest() -> None:
    """Ends what the command left behind: as a subreaper we are the parent of all orphans below us."""
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not children:
            return
        for pid in map(int, children):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
