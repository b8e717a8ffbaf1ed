"""How a command ends other than well: one sentence, an exit code, and the command to run next."""

from __future__ import annotations

from typing import Any

REFUSED = 1
"""Refused by the API, or failed."""
USAGE = 2
"""Wrong arguments; for `wait` also: the state can't be observed."""
TIMED_OUT = 4
"""The time given by `--timeout` is over; the work itself goes on."""
INTERRUPTED = 130
"""Ctrl-C."""


class Failure(Exception):
    """Ends the command. `message` is one sentence; `next_command` is runnable as it stands."""

    def __init__(self, message: str, *, exit_code: int = REFUSED, next_command: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.next_command = next_command

    def sentence(self) -> str:
        """The message, with the next command behind it unless it names that command already."""
        if self.next_command is None or self.next_command in self.message:
            return self.message
        return f"{self.message} Next: `{self.next_command}`."


class ApiRefusal(Failure):
    """The API's own answer was an error. `code` is the contract's, empty when the body wasn't the contract's."""

    def __init__(self, status: int, code: str, message: str, data: Any = None, next_command: str | None = None) -> None:
        super().__init__(message, next_command=next_command)
        self.status = status
        self.code = code
        self.data = data

    @property
    def transient(self) -> bool:
        """A restart or an overload that passes by itself; says nothing about whether a write was done."""
        return self.status in (502, 503, 504)


class Unreachable(Failure):
    """No answer. `sent` is False only when the API surely never saw the request."""

    def __init__(self, message: str, *, sent: bool, next_command: str | None = None) -> None:
        super().__init__(message, next_command=next_command)
        self.sent = sent


def restarting(failure: Failure) -> bool:
    """Whether the API, or the door before it, said that it will be there in a moment."""
    return isinstance(failure, ApiRefusal) and failure.transient


def passing(failure: Failure) -> bool:
    """Whether the same request may well succeed in a moment."""
    return isinstance(failure, Unreachable) or restarting(failure)


def unsent(failure: Failure) -> bool:
    """Whether the API surely never saw the request, so that repeating it can't do anything twice."""
    return isinstance(failure, Unreachable) and not failure.sent
