"""Whether a Deployment can be as asked, as far as that is a matter of the request alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anycloud_deployment.domain import quantities
from anycloud_deployment.domain.binds import check_binds
from anycloud_deployment.domain.environment import problem_with, reserved_in
from anycloud_deployment.domain.image import check_image
from anycloud_deployment.domain.model import DockerOptions, Spec
from anycloud_deployment.domain.probe import check_probe
from anycloud_deployment.domain.refusal import invalid

SECRET_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
RUNTIMES = ("nvidia", "runc")

_REPLICAS = 1000
_SLOTS = 10_000
_SECRETS = 64
_COMMAND_BYTES = 128 << 10


def check_spec(spec: Spec, *, ours: bool = True) -> Spec:
    """The spec itself. Raises Refusal with field, value and rule. `ours`: its containers get Anycloud's variables."""
    check_image(spec.image)
    _check_command(spec.command)
    _check_env(spec, ours)
    check_secret_names(spec.secrets)
    check_options(spec.options)
    if spec.probe is not None:
        check_probe(spec.probe)
    _check_count("replicas", spec.replicas, _REPLICAS)
    _check_count("maxConcurrentJobsPerReplica", spec.slots, _SLOTS)
    return spec


def check_options(options: DockerOptions) -> None:
    """Each option by itself; whether they fit a VM type is judged where that is known. Raises Refusal."""
    for name in ("cpus", "gpus", "memory", "runtime", "shm_size"):
        if getattr(options, name) == "":
            raise invalid(f"dockerOptions.{_wire(name)} is empty; leave it out, or give a value.")
    check_binds(options.binds or ())
    if options.cpus is not None:
        quantities.cpu_millis(options.cpus)
    if options.memory is not None:
        quantities.size_bytes("memory", options.memory)
    if options.shm_size is not None:
        quantities.size_bytes("shmSize", options.shm_size)
    if options.runtime is not None and options.runtime not in RUNTIMES:
        raise invalid(f"dockerOptions.runtime is {options.runtime[:40]!r}; it must be nvidia or runc.")


def refuse_unsupported(**given: bool) -> None:
    """Raises Refusal for the first Docker option that containers on a node pool can't have."""
    for name, there in given.items():
        if there:
            raise invalid(f"dockerOptions.{name} isn't supported on a node pool; leave it out.")


def check_secret_names(names: Sequence[str]) -> None:
    """Raises Refusal. Whether the Secrets exist is another question."""
    if len(names) > _SECRETS:
        raise invalid(f"secrets has {len(names)} names; at most {_SECRETS} are allowed.")
    seen: set[str] = set()
    for name in names:
        if not SECRET_NAME.fullmatch(name):
            raise invalid(
                f"secrets: {name[:80]!r} can't be a Secret's name; "
                "1 to 64 letters, digits, _ and -, starting with a letter."
            )
        if name.lower() in seen:
            raise invalid(f"secrets names {name} twice; name each Secret once.")
        seen.add(name.lower())


def _check_command(command: Sequence[str] | None) -> None:
    words = command or ()
    if any("\0" in word for word in words):
        raise invalid("command has a word with a zero byte, which no argument can hold.")
    if sum(len(word.encode()) for word in words) > _COMMAND_BYTES:
        raise invalid(f"command is longer than {_COMMAND_BYTES >> 10} KiB.")


def _check_env(spec: Spec, ours: bool) -> None:
    problem = problem_with(spec.env, "env")
    if problem is not None:
        raise invalid(problem)
    reserved = reserved_in(spec.env) if ours else None
    if reserved is not None:
        raise invalid(f"env: {reserved} is set by Anycloud in each container; leave it out.")


def _check_count(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise invalid(f"{name} is {value}; it must be 1 to {most}.")


def _wire(name: str) -> str:
    return "shmSize" if name == "shm_size" else name
