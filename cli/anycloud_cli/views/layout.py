"""The layout that every status shares: a head with the state, labelled fields, then lines of progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anycloud_cli.output import MISSING, one_line

INDENT = "   "
DONE, UNDER_WAY, FAILED = "✓", "◌", "✗"

Field = tuple[str, str | None]
"""A label and its value; None leaves the field out."""


def head(state: str) -> list[str]:
    """The opening of a status: the state between blank lines."""
    return ["", f"⚡  {state}", ""]


def fields(pairs: Iterable[Field], width: int) -> list[str]:
    """Indented labels with their values, which begin `width` characters behind the labels' beginning."""
    return [f"{INDENT}{label.ljust(width)}{one_line(value)}" for label, value in pairs if value is not None]


def state(name: str, releasing: bool) -> str:
    """A state as it is shown, with the label for what isn't given back yet."""
    return f"{name} · releasing" if releasing else name


def location(thing: dict[str, Any]) -> str:
    """Cloud, region and zone, as far as they are known."""
    region = "/".join(part for part in (thing["region"], thing["zone"]) if part)
    return " ".join(part for part in (thing["cloudProvider"], region) if part) or MISSING


def named(values: Sequence[str], shown: int) -> str:
    """The first few of many, and how many are left."""
    left = len(values) - shown
    return ", ".join(values[:shown]) + (f" · {left} more" if left > 0 else "")
