"""What a parent's service says about its objects, and how a refusal looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

# Reasons of refusals that are decided here; a policy adds codes of its own.
NO_FREE_DEVICES = "NO_FREE_DEVICES"  # the parent is fit, but others hold what is wanted
ADMISSION_RELEASED = "ADMISSION_RELEASED"  # the admission was released before; only a new one can be granted
ADMISSION_REUSED = "ADMISSION_REUSED"  # the id belongs to an admission with other owner, parents or devices


class Parent(NamedTuple):
    """What is held."""

    kind: str
    id: str


class Owner(NamedTuple):
    """What holds it."""

    kind: str
    id: str


@dataclass(frozen=True)
class Admission:
    """One try of an owner to hold its parents. `devices` are GPU devices, reserved on each parent."""

    id: str
    owner: Owner
    parents: tuple[Parent, ...]
    devices: int = 0


@dataclass(frozen=True)
class Refusal:
    """Why a parent can't be held: `code` for programs, `message` a sentence that names the parent and its state."""

    parent_kind: str
    parent_id: str
    code: str
    message: str


@dataclass(frozen=True)
class Capacity:
    """`devices` that a parent has in all; `parent` is how a sentence names it: "Node pool 'gpu' (running)"."""

    devices: int
    parent: str


class ParentPolicy(Protocol):
    """The parent service's own rules. Both methods only read, inside the transaction that then takes the holds."""

    def check(self, conn: Connection, parent: Parent, owner: Owner, devices: int) -> Refusal | None:
        """Reads the parent as it is now. A missing or deleting one, one of a kind that this service doesn't have, or
        one in a state that admits no such owner is refused. Free devices aren't judged here."""
        ...

    def capacity(self, conn: Connection, parent: Parent) -> Capacity | None:
        """All devices of a parent that passed `check`; None when they aren't counted. Asked only if some are wanted."""
        ...
