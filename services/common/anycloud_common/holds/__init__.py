"""Holds, the parent's side: every parent-child edge between services lives in the parent's database.

A hold is taken in a transaction of the parent's service, and a parent is deleted only in one that finds no holds.
Holds have no expiry and need no confirmation; the caller's side (`anycloud_common.admission`) releases each by its id.
"""

from anycloud_common.holds.policy import (
    ADMISSION_RELEASED,
    ADMISSION_REUSED,
    NO_FREE_DEVICES,
    Admission,
    Capacity,
    Owner,
    Parent,
    ParentPolicy,
    Refusal,
)
from anycloud_common.holds.reads import count, devices_held, owners
from anycloud_common.holds.servicer import HoldServicer
from anycloud_common.holds.tables import HoldTables, tables
from anycloud_common.holds.writes import acquire, release, replace

__all__ = [
    "ADMISSION_RELEASED",
    "ADMISSION_REUSED",
    "NO_FREE_DEVICES",
    "Admission",
    "Capacity",
    "HoldServicer",
    "HoldTables",
    "Owner",
    "Parent",
    "ParentPolicy",
    "Refusal",
    "acquire",
    "count",
    "devices_held",
    "owners",
    "release",
    "replace",
    "tables",
]
