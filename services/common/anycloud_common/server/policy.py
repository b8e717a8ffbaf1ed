"""What the .proto says about calling a method: who may, with which client, and which errors it declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import MethodDescriptor

from anycloud_common import errors

Access = Literal["user", "workload", "sign-in", "internal"]


@dataclass(frozen=True)
class Policy:
    """Rules of one method. `declares` is None for internal methods, which may raise every declared error."""

    path: str  # "/package.Service/Method"
    access: Access
    neighbour: bool  # clients one minor release apart are served too
    declares: frozenset[str] | None
    invalid: str  # code of a request without the declared shape, or empty
    unavailable: str  # code of "the store can't take it now"


def policy_of(method: MethodDescriptor) -> Policy:
    """Reads the method's options. Raises ValueError when these name an error that the enum doesn't have."""
    rule = method.GetOptions().Extensions[rest.method]
    service = method.containing_service
    internal = ".internal." in f"{service.file.package}."
    access: Access = "internal" if internal else _access(rule.access)
    default = "WORKLOAD_UNAVAILABLE" if access == "workload" else "API_RESTARTING"
    policy = Policy(
        path=f"/{service.full_name}/{method.name}",
        access=access,
        neighbour=rule.client_version == rest.VERSION_RULE_NEIGHBOUR,
        declares=None if internal else errors.common_codes(rule.access) | set(rule.errors),
        invalid=rule.invalid,
        unavailable=rule.unavailable or default,
    )
    _check(policy)
    return policy


def _access(value: int) -> Access:
    if value == rest.ACCESS_WORKLOAD:
        return "workload"
    return "sign-in" if value == rest.ACCESS_SIGN_IN else "user"


def _check(policy: Policy) -> None:
    named = (policy.declares or frozenset()) | {policy.invalid or "API_RESTARTING", policy.unavailable}
    unknown = sorted(named - errors.DECLARED.keys())
    if unknown:
        raise ValueError(f"{policy.path} names errors that are not declared: {', '.join(unknown)}")
    if any(errors.DECLARED[code].data for code in (policy.invalid, policy.unavailable) if code):
        raise ValueError(f"{policy.path}: codes of `invalid` and `unavailable` can't be ones with data")
    if policy.declares is not None and not policy.declares >= named:
        raise ValueError(f"{policy.path}: its codes of `invalid` and `unavailable` belong into `errors`")
