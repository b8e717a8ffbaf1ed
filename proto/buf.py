"""Calls buf on descriptors that protoc made: so it needs neither a network nor a module for Google's protos."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compiler import descriptors
from generate import ROOT

CONFIG = ROOT / "buf.yaml"


def image(protos: Path, out: Path) -> Path:
    descriptors(protos, out)
    return out


def buf(command: str, *arguments: str | Path) -> int:
    """The exit status; what buf finds it prints itself, paths as seen from proto/."""
    program = Path(sys.executable).parent / "buf"
    line = [program, command, *arguments, "--config", CONFIG, "--path", "anycloudapi"]
    return subprocess.run(list(map(str, line)), check=False).returncode
