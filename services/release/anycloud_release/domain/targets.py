"""Which images a hosted API may be moved to."""

from __future__ import annotations

import re
from typing import Final

from anycloud_common import registry
from anycloud_common.registry import API_REGISTRY, API_REPOSITORY, Reference

_VERSION: Final = re.compile(r"\d{1,9}(\.\d{1,9}){2}", re.ASCII)


class TargetRefused(Exception):
    """The API won't be moved to that image; one sentence that says why."""


def reference(image: str) -> Reference:
    """The API's own published image and no look-alike. Raises TargetRefused."""
    if not registry.is_ghcr_anycloud(image):
        raise TargetRefused(
            f"{image[:200]} isn't this API's image; only {API_REGISTRY}/{API_REPOSITORY} can be served."
        )
    return registry.parse(image)


def version(named: Reference, labelled: str | None) -> str:
    """The release's version: what the image says of itself, else the tag. Raises TargetRefused."""
    for text in (labelled, named.tag):
        if text is not None and _VERSION.fullmatch(text):
            return text
    raise TargetRefused(f"{_written(named)} names no version; write it as {API_REGISTRY}/{API_REPOSITORY}:<version>.")


def refuse_older(wanted: str, served: str | None) -> None:
    """`served` last used the database, whose schema an older version wouldn't know. Raises TargetRefused."""
    if served is not None and _numbers(wanted) < _numbers(served):
        raise TargetRefused(
            f"Version {wanted} is older than {served}, which has used the database; going back is a restore of the "
            "backup from before that upgrade."
        )


def unpublished(named: Reference) -> TargetRefused:
    if named.tag is None:
        return TargetRefused(f"{_written(named)} isn't published.")
    return TargetRefused(f"Version {named.tag} isn't published: {_written(named)} has no digest.")


def _written(named: Reference) -> str:
    tag = "" if named.tag is None else f":{named.tag}"
    return f"{named.name}{tag}" + ("" if named.digest is None else f"@{named.digest}")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
