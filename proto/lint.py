"""Checks the style of the .proto files. Usage: python proto/lint.py"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import generate
from buf import buf, image


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return buf("lint", image(generate.PROTO, Path(scratch) / "now.binpb"))


if __name__ == "__main__":
    sys.exit(main())
