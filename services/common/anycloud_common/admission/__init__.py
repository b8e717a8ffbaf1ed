"""Admission, the caller's side of holds: how an object of one service comes to hold parents in another."""

from anycloud_common.admission.admissions import Admissions
from anycloud_common.admission.errors import Conflict, HoldsUnavailable, Refused
from anycloud_common.admission.tables import AdmissionRow, tables

__all__ = ["AdmissionRow", "Admissions", "Conflict", "HoldsUnavailable", "Refused", "tables"]
