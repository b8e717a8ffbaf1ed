"""Container image references, and what a registry says about an image."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from anycloud_common.http_json import DEADLINE_S, JsonClient, NoAnswer

Accelerator = Literal["none", "cuda", "rocm"]

API_REGISTRY = "ghcr.io"
API_REPOSITORY = "anycloud-sh/api"

_NAME_CHARACTERS = 255
_HOST = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


class InvalidReference(ValueError):
    """The text is no image reference."""


class NotFound(Exception):
    """The registry has no such image, or none that it shows us."""


class Unavailable(Exception):
    """The registry gave no usable answer; nothing is known about the image."""


@dataclass(frozen=True)
class Reference:
    """A reference as `docker pull` takes it: `name` is how it was written, without tag and digest."""

    name: str
    tag: str | None
    digest: str | None

    @property
    def registry(self) -> str:
        """Host of the registry: the first part of the name if it looks like a host, else Docker Hub's."""
        first, slash, _ = self.name.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
        return first.lower() if is_host else "docker.io"

    @property
    def repository(self) -> str:
        """Path in the registry; Docker Hub's official images are below `library/`."""
        first, _, rest = self.name.partition("/")
        path = rest if first.lower() == self.registry else self.name
        return f"library/{path}" if self.registry == "docker.io" and "/" not in path else path

    def pinned(self, digest: str) -> str:
        """The same image by digest alone, so that a tag that moves changes nothing."""
        return f"{self.name}@{digest}"


@dataclass(frozen=True)
class Image:
    """An image at one moment: `digest` is what the reference stands for now."""

    reference: str
    digest: str
    accelerator: Accelerator
    env: Mapping[str, str]
    command: tuple[str, ...]
    labels: Mapping[str, str]

    @property
    def pinned(self) -> str:
        return parse(self.reference).pinned(self.digest)


def parse(reference: str) -> Reference:
    """Takes a reference apart. Raises InvalidReference, whose text is one sentence for the user."""
    found = _REFERENCE.fullmatch(reference)
    parsed = Reference(found["name"], found["tag"], found["digest"]) if found else None
    if parsed is None or len(parsed.name) > _NAME_CHARACTERS or _has_capitals(parsed.repository):
        raise InvalidReference(f"{reference!r} is no image reference such as ghcr.io/owner/name:tag.")
    return parsed


def _has_capitals(repository: str) -> bool:
    """Only hosts may have capitals; a first part without dot and port is no host here."""
    return repository != repository.lower()


def is_ghcr_anycloud(reference: str) -> bool:
    """Whether a reference names the published API image, ghcr.io/anycloud-sh/api, and no look-alike."""
    try:
        found = parse(reference)
    except InvalidReference:
        return False
    return (found.registry, found.repository) == (API_REGISTRY, API_REPOSITORY)


class Registry:
    """A service at a base URL that resolves references."""

    def __init__(self, base_url: str, deadline_s: float = DEADLINE_S) -> None:
        self._http = JsonClient(base_url, deadline_s)

    async def resolve(self, reference: str) -> Image:
        """What a reference stands for now. Raises InvalidReference, NotFound or Unavailable."""
        wanted = parse(reference)
        try:
            answer = await self._http.call("GET", "/images", query={"reference": reference})
        except NoAnswer as error:
            raise Unavailable(f"the registry of {reference} can't be reached: {error}") from None
        if answer.status in (401, 403, 404):
            raise NotFound(f"there is no image {reference}")
        if not answer.ok:
            raise Unavailable(f"the registry of {reference} answered {answer.status}: {answer.text('message')}")
        try:
            image = _image(reference, answer.body)
        except (TypeError, ValueError, KeyError):
            raise Unavailable(f"the registry's answer about {reference} can't be read") from None
        if wanted.digest not in (None, image.digest):
            raise Unavailable(f"the registry answered with another image than {reference}")
        return image

    async def close(self) -> None:
        await self._http.close()


def _image(reference: str, body: Any) -> Image:
    manifest = body["manifest"]
    digest, accelerator = body["digest"], manifest.get("accelerator", "none")
    if not re.fullmatch("sha256:[0-9a-f]{64}", digest) or accelerator not in ("none", "cuda", "rocm"):
        raise ValueError
    return Image(
        reference=reference,
        digest=digest,
        accelerator=cast(Accelerator, accelerator),
        env=dict(manifest.get("env") or {}),
        command=tuple(manifest.get("command") or ()),
        labels=dict(manifest.get("labels") or {}),
    )
