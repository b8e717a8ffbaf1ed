"""What can go wrong between a service and its database."""

from __future__ import annotations


class StoreBusy(Exception):
    """The queue of writes is full; nothing was done. The caller may try again."""

    unavailable = True  # the server answers it with the operation's declared 503


class StoreUnavailable(Exception):
    """The database didn't do the work, surely: what was begun was rolled back. The caller may try again."""

    unavailable = True


class StoreOpenError(Exception):
    """The database can't be opened; the text is one sentence for the operator."""
