"""One container's keeper: `python shim.py <run directory>`, started by the node agent and outliving it.

It reads one line of JSON from stdin ({"argv", "logBytes"}) and starts nothing before it has it: the agent records the
shim first. It keeps the log, forwards SIGTERM, kills the command at SIGUSR1, and leaves `exit.json`.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(folder: Path, order: dict[str, Any]) -> None:
    libc, (reader, writer), started = ctypes.CDLL(None), os.pipe(), time.time()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), writer, writer)):
            os.dup2(file, number)
        try:
            os.execvp(order["argv"][0], order["argv"])  # noqa: S606
        except OSError as error:
            os.write(2, f"{order['argv'][0]}: {error.strerror}\n".encode())
            os._exit(127)
    os.close(writer)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGKILL))
    code = keep_log(folder / "log", reader, child, order["logBytes"])
    text = json.dumps({"exitCode": code if code >= 0 else 128 - code, "startedAt": started, "finishedAt": time.time()})
    (folder / "exit.new").write_text(text)
    (folder / "exit.new").rename(folder / "exit.json")


def keep_log(path: Path, reader: int, child: int, limit: int) -> int:
    """Copies the output until the command has ended, and all that it left with it; its exit code."""
    ended, poll, log, code = os.pidfd_open(child), select.poll(), path.open("ab", 0), None
    poll.register(reader, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        ready = dict(poll.poll(None if code is None else 0))
        if reader in ready:
            chunk = os.read(reader, 65536)
            log.write(chunk)
            if log.tell() > limit:  # the newer half goes on as a new file
                path.with_suffix(".new").write_bytes(path.read_bytes()[-limit // 2 :])
                path.with_suffix(".new").rename(path)
                log = path.open("ab", 0)
            if not chunk:
                poll.unregister(reader)
        elif code is not None:
            return code
        elif ended in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            poll.unregister(ended)
            # As a subreaper we are the parent of all orphans below us.
            while left := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                os.kill(int(left[0]), signal.SIGKILL)
                os.waitpid(int(left[0]), 0)


if __name__ == "__main__" and (line := sys.stdin.readline()):
    main(Path(sys.argv[1]), json.loads(line))
