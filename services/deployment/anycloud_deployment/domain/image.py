"""Image references: `[registry[:port]/]name[:tag][@digest]`."""

from __future__ import annotations

from anycloud_common import registry

from anycloud_deployment.domain.refusal import invalid

_RULE = "an image is [registry/]name[:tag][@sha256:digest], its name in lower case"


def check_image(reference: str) -> str:
    """The reference itself. Raises Refusal."""
    if not reference:
        raise invalid(f"image is empty; {_RULE}.")
    try:
        registry.parse(reference)
    except registry.InvalidReference:
        raise invalid(f"image {reference[:300]!r} isn't a reference; {_RULE}.") from None
    return reference
