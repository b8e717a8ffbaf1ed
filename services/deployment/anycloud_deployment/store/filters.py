"""Which workloads a list shows, as conditions whose values are parameters: lists that ask alike share a statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Table, bindparam, or_

_ESCAPE: Final = "/"

Asked = frozenset[str]
"""Names of the fields of a Filter that aren't None."""


@dataclass(frozen=True)
class Filter:
    """None leaves a question out. `session` is looked for in the label too."""

    since_ms: int | None = None
    deployment_id: str | None = None
    created_by: str | None = None
    session: str | None = None
    session_exact: str | None = None
    agent: str | None = None
    states: Collection[str] | None = None
    text: str | None = None

    @property
    def asked(self) -> Asked:
        return frozenset(name for name in _NAMES if getattr(self, name) is not None)

    def values(self) -> dict[str, Any]:
        """The parameters of the conditions."""
        values = {name: getattr(self, name) for name in self.asked}
        if self.states is not None:
            values["states"] = list(self.states)
        if self.text is not None:
            values["text"] = _literally(self.text)
        return values


_NAMES: Final = tuple(field.name for field in fields(Filter))


def conditions(table: Table, asked: Asked, searched: Sequence[Column[Any]]) -> list[ColumnElement[bool]]:
    """`searched` are the columns in which `text` may be."""
    c = table.c
    columns = {
        "deployment_id": "deployment_id",
        "created_by": "created_by",
        "session_exact": "session",
        "agent": "agent",
    }
    made = [c[column] == bindparam(name) for name, column in columns.items() if name in asked]
    if "since_ms" in asked:
        made.append(c.created_at >= bindparam("since_ms"))
    if "session" in asked:
        made.append(or_(c.session == bindparam("session"), c.session_label == bindparam("session")))
    if "states" in asked:
        made.append(c.state.in_(bindparam("states", expanding=True)))
    if "text" in asked:
        made.append(or_(*(column.icontains(bindparam("text"), escape=_ESCAPE) for column in searched)))
    return made


def _literally(text: str) -> str:
    """For LIKE: without what would stand for other characters."""
    for special in (_ESCAPE, "%", "_"):
        text = text.replace(special, _ESCAPE + special)
    return text
