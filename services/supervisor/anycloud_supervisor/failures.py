"""Why an installation doesn't start or stop."""

from __future__ import annotations


class SupervisorError(Exception):
    """The text is one sentence for the person who ran the command."""
