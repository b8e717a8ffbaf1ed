from __future__ import annotations


class MigrationError(Exception):
    """The data directory can't be brought to this build's schema; the text is one sentence for the operator."""
