"""Where the programs are, and how one is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

STORES = ("kine", "etcd")
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
HELM = ("helm", "helm-controller")

# Becomes the program, and is killed when its parent ends in any way, even when it has ended by now.
_BOUND = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def find(name: str, folders: Sequence[Path]) -> Path | None:
    """The program in the first folder that has it."""
    return next((path for folder in folders if os.access(path := folder / name, os.X_OK)), None)


def missing(folders: Sequence[Path]) -> list[str]:
    """What a whole control plane lacks; of the two stores one is enough."""
    absent = [name for name in (*SERVERS, *HELM) if find(name, folders) is None]
    return absent if any(find(name, folders) for name in STORES) else [*absent, STORES[0]]


def bound(command: Sequence[str]) -> list[str]:
    """That command so that it can't outlive this process, or rather the thread that starts it (the main one)."""
    return [sys.executable, "-IS", "-c", _BOUND, str(os.getpid()), *command]


def start(command: Sequence[str], log: Path, cwd: Path) -> subprocess.Popen[bytes]:
    """With its output appended to a file."""
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd)  # noqa: S603
