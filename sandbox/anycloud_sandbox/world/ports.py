"""Loopback addresses and ports that nobody else here uses; what was given out is recorded by the caller."""

from __future__ import annotations

import secrets
import socket

FIRST, LAST = 20_000, 32_000  # below the kernel's range for outgoing connections


def free_port(host: str) -> int:
    for _ in range(1000):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on {host}")


def new_address(used: set[str]) -> str:
    """A machine's own address in 127.64.0.0/10, which is this computer and nothing else."""
    while True:
        number = secrets.randbelow(2**22 - 2) + 1
        address = f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        if address not in used and not address.endswith((".0", ".255")):
            return address
