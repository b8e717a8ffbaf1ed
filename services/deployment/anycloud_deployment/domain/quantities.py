"""CPU counts and sizes of memory, as Docker spells them."""

from __future__ import annotations

import re
from decimal import Decimal

from anycloud_deployment.domain.refusal import invalid

_CPUS = re.compile(r"\d{1,6}(?:\.\d{1,3})?")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(?:([kKmMgGtT])[iI]?)?[bB]?")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LARGEST_SIZE = 1 << 50
_SMALLEST_SIZE = 1 << 20


def cpu_millis(text: str) -> int:
    """Thousandths of a CPU in a number such as `6` or `0.5`. Raises Refusal."""
    if not _CPUS.fullmatch(text) or Decimal(text) == 0:
        raise invalid(
            f"dockerOptions.cpus {text[:40]!r} isn't a number of CPUs; give a positive one with at most three decimals."
        )
    return int(Decimal(text) * 1000)


def size_bytes(option: str, text: str) -> int:
    """Bytes in a size such as `512m`, `2g` or `1.5Gi`; units are powers of 1024 in either case. Raises Refusal."""
    found = _SIZE.fullmatch(text)
    rule = "give a positive number with b, k, m, g or t behind it, from 1m up"
    if found is None:
        raise invalid(f"dockerOptions.{option} {text[:40]!r} isn't a size; {rule}.")
    size = int(Decimal(found[1]) * _UNITS[(found[2] or "").lower()])
    if not _SMALLEST_SIZE <= size <= _LARGEST_SIZE:
        raise invalid(f"dockerOptions.{option} {text[:40]!r} is out of bounds; {rule}.")
    return size
