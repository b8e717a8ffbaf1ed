"""Names and values of environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

ENV_API_URL = "ANYCLOUD_API_URL"
ENV_DEPLOYMENT_ID = "ANYCLOUD_DEPLOYMENT_ID"
ENV_TOKEN_FILE = "ANYCLOUD_WORKLOAD_TOKEN_FILE"  # noqa: S105 - a variable's name
OURS = (ENV_API_URL, ENV_DEPLOYMENT_ID, ENV_TOKEN_FILE)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_RULE = "a variable's name has letters, digits and _, at most 255, and doesn't start with a digit"
_ALL_BYTES = 1 << 20  # a Kubernetes Secret holds no more, and a process's environment hardly so


def problem_with(values: Mapping[str, str], what: str) -> str | None:
    """What is wrong with variables, as one sentence that shows no value, or None. `what`: "env" or "values"."""
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            return f"{what}: {name[:80]!r} can't be a variable; {_RULE}."
        if "\0" in value:
            return f"{what}: the value of {name} has a zero byte, which no variable can hold."
    if sum(len(name.encode()) + len(value.encode()) for name, value in values.items()) > _ALL_BYTES:
        return f"{what}: all names and values together may have 1 MiB."
    return None


def reserved_in(values: Mapping[str, str]) -> str | None:
    """The variable among these that Anycloud itself gives to containers, or None."""
    return next((name for name in OURS if name in values), None)
