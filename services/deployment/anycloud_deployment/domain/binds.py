"""Paths of disposable volumes: absolute, apart from each other, and away from what the container needs."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from anycloud_deployment.domain.refusal import invalid

_MOST = 64
_CHARACTERS = 1024
# Devices, the kernel's views, and where tokens are mounted (/var/run is a link to /run in most images).
_PROTECTED = ("/dev", "/proc", "/sys", "/var/run/secrets", "/run/secrets")
_RULE = "give the absolute path of a directory in the container, and nothing else"


def check_binds(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths themselves. Raises Refusal."""
    if len(paths) > _MOST:
        raise invalid(f"dockerOptions.binds has {len(paths)} paths; at most {_MOST} are allowed.")
    for path in paths:
        _check_path(path)
    for index, path in enumerate(paths):
        for other in paths[:index]:
            if _covers(path, other) or _covers(other, path):
                raise invalid(f"dockerOptions.binds: {other} and {path} overlap; volumes must not lie in each other.")
    return tuple(paths)


def _check_path(path: str) -> None:
    shown = repr(path[:80])
    if not path:
        raise invalid(f"dockerOptions.binds has an empty path; {_RULE}.")
    if ":" in path:
        unsupported = "host paths, named volumes and mount modes aren't supported"
        raise invalid(f"dockerOptions.binds: {shown} has a `:`; {unsupported}: {_RULE}.")
    if not path.startswith("/"):
        raise invalid(f"dockerOptions.binds: {shown} isn't absolute; {_RULE}.")
    if len(path) > _CHARACTERS or not path.isprintable():
        raise invalid(f"dockerOptions.binds: {shown} is longer than {_CHARACTERS} characters or has unprintable ones.")
    if path != posixpath.normpath(path) or path.startswith("//"):
        raise invalid(f"dockerOptions.binds: {shown} isn't plain; leave out `.`, `..`, double and closing slashes.")
    for protected in _PROTECTED:
        if _covers(path, protected) or _covers(protected, path):
            raise invalid(f"dockerOptions.binds: {shown} covers {protected} or lies in it, which isn't allowed.")


def _covers(outer: str, inner: str) -> bool:
    """Whether a volume at `outer` hides `inner`, or is the same."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")
