"""The schema of an installation as one number, and the four revisions that it stands for."""

from __future__ import annotations

# The order in which databases are migrated: a service never comes before those that it calls.
SERVICES = ("cluster", "nodepool", "deployment", "release")

# Raised by one whenever any service gets a new newest revision; the earlier entries stay.
SCHEMA_VERSION = 3
HEADS: dict[int, dict[str, str]] = {
    1: {"cluster": "0001", "nodepool": "0001", "deployment": "0001", "release": "0001"},
    2: {"cluster": "0001", "nodepool": "0001", "deployment": "0002", "release": "0001"},
    3: {"cluster": "0001", "nodepool": "0002", "deployment": "0003", "release": "0001"},
}
