"""Where generated functions live: Python source per message type, compiled once, in one namespace per codec."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any


class Generated:
    """Functions and constants by name. Bodies look names up when they run, so messages may refer to themselves."""

    def __init__(self, helpers: dict[str, Any]) -> None:
        self._names: dict[str, Any] = dict(helpers)
        self._known: dict[Hashable, str] = {}

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def reserve(self, prefix: str, key: Hashable) -> tuple[str, bool]:
        """The name for `key`, and whether its maker still has to define it."""
        known = self._known.get((prefix, key))
        if known is not None:
            return known, False
        name = self._known[prefix, key] = f"{prefix}_{len(self._known)}"
        return name, True

    def constant(self, prefix: str, key: Hashable, make: Callable[[], Any]) -> str:
        """The name of a value that is made once for `key`."""
        name, new = self.reserve(prefix, key)
        if new:
            self._names[name] = make()
        return name

    def function(self, name: str, parameter: str, body: Sequence[str], origin: str) -> None:
        """`origin` shows up in tracebacks: the full name of the message or field."""
        source = f"def {name}({parameter}):\n" + "\n".join(f"    {line}" for line in body)
        # The text is made from descriptors that ship with the program; nothing of a request gets into it.
        exec(compile(source, f"<rest {origin}>", "exec"), self._names)  # noqa: S102
