"""Image references: `[registry[:port]/]path[:tag][@digest]`."""

from __future__ import annotations

import re

from anycloud_deployment.domain.refusal import invalid

_NAME_CHARACTERS = 255
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_RULE = "an image is [registry/]name[:tag][@sha256:digest], its name in lower case"


def check_image(reference: str) -> str:
    """The reference itself. Raises Refusal."""
    if not reference:
        raise invalid(f"image is empty; {_RULE}.")
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise invalid(f"image {reference[:300]!r} isn't a reference; {_RULE}.")
    if len(found["name"]) > _NAME_CHARACTERS:
        raise invalid(f"image has a name of {len(found['name'])} characters; at most {_NAME_CHARACTERS} are allowed.")
    return reference
