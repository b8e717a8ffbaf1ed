"""Holds as protobuf messages and back."""

from __future__ import annotations

from anycloudapi.common.internal.v1 import holds_pb2

from anycloud_common.holds.policy import Admission, Owner, Parent, Refusal


def to_message(admission: Admission) -> holds_pb2.Admission:
    return holds_pb2.Admission(
        id=admission.id,
        owner=holds_pb2.Owner(kind=admission.owner.kind, id=admission.owner.id),
        parents=[holds_pb2.Parent(kind=parent.kind, id=parent.id) for parent in admission.parents],
        devices=admission.devices,
    )


def from_message(message: holds_pb2.Admission) -> Admission:
    """Raises ValueError for an admission that can't be: without id, owner or parents, or with negative devices."""
    owner = Owner(message.owner.kind, message.owner.id)
    parents = tuple(Parent(parent.kind, parent.id) for parent in message.parents)
    if not (message.id and all(owner) and parents and all(all(parent) for parent in parents)):
        raise ValueError("an admission has an id, an owner and parents, each with kind and id")
    if len(set(parents)) != len(parents):
        raise ValueError("an admission names each parent once")
    if message.devices < 0:
        raise ValueError("devices can't be negative")
    return Admission(message.id, owner, parents, message.devices)


def refused(refusal: Refusal) -> holds_pb2.Refused:
    return holds_pb2.Refused(
        parent_kind=refusal.parent_kind,
        parent_id=refusal.parent_id,
        code=refusal.code,
        message=refusal.message,
    )
