"""An image registry whose images are directories on this machine."""

from __future__ import annotations

import hashlib
import re

import orjson

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.state import Json, State

REFERENCE = re.compile(
    r"(?P<name>[a-z0-9]+(?:[._/:-]+[a-z0-9]+)*?)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def parse(reference: str) -> tuple[str, str, str]:
    """Name, tag (`latest` when neither tag nor digest is given) and digest; raises for what is no reference."""
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise WorldError("invalid", f"invalid reference format: {reference!r}")
    name, tag, digest = found["name"], found["tag"] or "", found["digest"] or ""
    return name, tag or ("" if digest else "latest"), digest


class Registry:
    def __init__(self, state: State, faults: Faults) -> None:
        self._state, self._faults = state, faults
        self._images = state.load("images")  # "name@digest" -> image, "name:tag" -> {"digest"}

    def register(self, body: Json) -> Json:
        name, tag, _ = parse(body["reference"])
        manifest = {"accelerator": "none", "env": {}, "command": [], "labels": {}, **(body.get("manifest") or {})}
        digest = "sha256:" + hashlib.sha256(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()
        image = {"digest": digest, "manifest": manifest, "directory": body.get("directory")}
        self._keep(f"{name}@{digest}", image)
        if tag:
            self._keep(f"{name}:{tag}", {"digest": digest})
        return {"digest": digest}

    def get(self, reference: str) -> Json:
        """The image of a tag or digest. Faults on an image show here, as the node agent asks at every start."""
        name, tag, digest = parse(reference)
        if fault := self._faults.take("pull-failure", area="registry", reference=reference):
            raise WorldError("unreachable", fault.message)
        digest = digest or self._images.get(f"{name}:{tag}", {}).get("digest", "")
        image = self._images.get(f"{name}@{digest}")
        if image is None:
            raise WorldError("not_found", f"{reference}: not found")
        if self._faults.take("crash-loop", area="registry", reference=reference):
            image = {**image, "broken": ["/bin/sh", "-c", "echo injected crash >&2; exit 1"]}
        return {"reference": f"{name}@{digest}", **image}

    def _keep(self, key: str, document: Json) -> None:
        self._images[key] = document
        self._state.put("images", key, document)
