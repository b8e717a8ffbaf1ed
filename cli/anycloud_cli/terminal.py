"""What only a terminal gets: colour, and a screen that refreshes in place. Imported only then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

_SIGNS = {"✓": "green", "◌": "yellow", "✗": "red"}
_STATES = {"running": "green", "completed": "green", "failed": "red", "errored": "red", "invalid": "red"}


def print_styled(stream: TextIO, lines: Sequence[str]) -> None:
    """The same text as in a pipe, coloured; long lines are left to the terminal."""
    console = _console(stream)
    for line in lines:
        console.print(_styled(line), soft_wrap=True)


class Screen:
    """Shows the newest lines in place of the last ones while the block runs."""

    def __init__(self, stream: TextIO) -> None:
        self._live = Live(console=_console(stream), auto_refresh=False, vertical_overflow="visible")

    def __enter__(self) -> Callable[[Sequence[str]], None]:
        self._live.start()
        return self._show

    def _show(self, lines: Sequence[str]) -> None:
        self._live.update(Text("\n").join(_styled(line) for line in lines), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def _styled(line: str) -> Text:
    text = Text(line)
    for sign, colour in _SIGNS.items():
        text.highlight_words([sign], style=colour)
    for state, colour in _STATES.items():
        if line.startswith("⚡") or line.endswith(f"  {state}"):
            text.highlight_words([state], style=colour)
    if line.startswith("⚡") or line.isupper():
        text.stylize("bold")
    return text
