"""What a command prints: results on stdout, everything else on stderr; plain text without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

MISSING = "-"
"""Stands in a cell or field for a value that isn't known."""


class Output:
    """The two streams of a command. With `as_json`, stdout holds JSON and nothing else."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self._remark = ""

    def lines(self, lines: Iterable[str]) -> None:
        """Text for people, on stdout."""
        _print(sys.stdout, lines)

    def document(self, value: Any) -> None:
        """The one JSON document of a command."""
        _print(sys.stdout, [_json(value, indent=2)])

    def record(self, value: Any) -> None:
        """One JSON value a line, for output that comes in parts."""
        self.text(_json(value))

    def text(self, text: str) -> None:
        """A line of a program's output, byte for byte, at once."""
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """A sentence beside the result, on stderr."""
        _print(sys.stderr, [text])

    def remark(self, text: str) -> None:
        """A note that isn't repeated while it stays the same."""
        if text != self._remark:
            self._remark = text
            self.note(text)

    def result(self, value: Any, lines: Iterable[str]) -> None:
        """One result in the form that was asked for."""
        if self.as_json:
            self.document(value)
        else:
            self.lines(lines)


def _json(value: Any, indent: int | None = None) -> str:
    import json

    return json.dumps(value, indent=indent, ensure_ascii=False)


def _print(stream: TextIO, lines: Iterable[str]) -> None:
    if stream.isatty():
        from anycloud_cli import terminal

        terminal.print_styled(stream, list(lines))
        return
    stream.writelines(f"{line}\n" for line in lines)
    stream.flush()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Left-aligned columns, two spaces apart, no trailing spaces."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def one_line(text: str) -> str:
    """Text from outside, fit for one line of a terminal: no line breaks, no control characters."""
    return "".join(character if character.isprintable() else " " for character in text).strip()
