"""The bounds of a readiness probe."""

from __future__ import annotations

from anycloud_deployment.domain.model import Probe
from anycloud_deployment.domain.refusal import invalid

_ARGUMENTS = 128
_CHARACTERS = 4096
_BOUNDS = {
    "initial_delay_seconds": ("initialDelaySeconds", 0, 86400),
    "period_seconds": ("periodSeconds", 1, 3600),
    "timeout_seconds": ("timeoutSeconds", 1, 3600),
    "success_threshold": ("successThreshold", 1, 100),
    "failure_threshold": ("failureThreshold", 1, 100),
}


def check_probe(probe: Probe) -> Probe:
    """The probe itself. Raises Refusal."""
    if not 1 <= len(probe.command) <= _ARGUMENTS:
        raise invalid(f"readinessProbe.exec.command has {len(probe.command)} words; it needs 1 to {_ARGUMENTS}.")
    if not probe.command[0]:
        raise invalid("readinessProbe.exec.command starts with an empty word; its first word is the program.")
    if any(len(word) > _CHARACTERS or "\0" in word for word in probe.command):
        raise invalid(f"readinessProbe.exec.command: a word has at most {_CHARACTERS} characters and no zero byte.")
    for field, (name, least, most) in _BOUNDS.items():
        value = getattr(probe, field)
        if value is not None and not least <= value <= most:
            raise invalid(f"readinessProbe.{name} is {value}; it must be {least} to {most}.")
    return probe
