"""How an update changes a revision: what is named changes, all else stays.

An update is one map from the names of `Spec` to new values, and one from the names of `DockerOptions`; None clears.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anycloud_deployment.domain.model import DockerOptions, Spec
from anycloud_deployment.domain.refusal import invalid

SETTINGS = ("image", "command", "env", "secrets", "probe", "replicas", "slots")
OPTIONS = ("binds", "cpus", "gpus", "memory", "privileged", "runtime", "shm_size")
_NEVER_NULL = {"image": "image", "replicas": "replicas", "slots": "maxConcurrentJobsPerReplica"}


@dataclass(frozen=True)
class Update:
    """What a request changes. `clear_options`: all options go before `options` are set."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    clear_options: bool = False
    empty_options: bool = False  # an options object that names none was sent

    @property
    def recomputes_gpus(self) -> bool:
        """Only an update that names the GPUs changes how many are reserved."""
        return self.clear_options or "gpus" in self.options


def check_update(update: Update) -> None:
    """Refuses an update that asks for nothing, wholly or in its options, and null where there is no default."""
    if update.empty_options:
        raise invalid("dockerOptions is an empty object; name options to change, or give null to clear them all.")
    if not (update.settings or update.options or update.clear_options):
        raise invalid("The update is empty; name at least one setting to change.")
    for name, wire in _NEVER_NULL.items():
        if name in update.settings and update.settings[name] is None:
            raise invalid(f"{wire} can't be null; leave it out to keep it.")


def updated(spec: Spec, update: Update) -> Spec:
    """The spec with the update in it, unchecked."""
    before = DockerOptions() if update.clear_options else spec.options
    options = replace(before, **update.options)
    changes = {name: _cleared(name) if value is None else value for name, value in update.settings.items()}
    return replace(spec, options=options, **changes)


def _cleared(name: str) -> Any:
    return {"env": {}, "secrets": ()}.get(name)
