"""`--watch`: shows an object again and again until it has come to rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anycloud_cli.patience import Patience
from anycloud_cli.session import Session

RIDE_OUT_SECONDS = 120.0
"""How long a watch bears with an API that doesn't answer."""

Render = Callable[[Any], Sequence[str]]


def watch(
    session: Session, fetch: Callable[[], Any], render: Render, at_rest: Callable[[Any], bool], interval: float
) -> Any:
    """The last observation. A terminal is refreshed in place; elsewhere, and with `--json`, each change is printed."""
    patience = Patience(session.clock, RIDE_OUT_SECONDS, session.complain)
    seen = fetch()  # an API that doesn't answer at all is told at once
    with _shown(session, render) as show:
        show(seen)
        while not at_rest(seen):
            session.clock.sleep(interval)
            seen = patience.read(fetch)
            show(seen)
    return seen


@contextmanager
def _shown(session: Session, render: Render) -> Iterator[Callable[[Any], None]]:
    if session.out.as_json:
        yield _on_change(session.out.record)
    elif not sys.stdout.isatty():
        yield _on_change(lambda seen: session.out.lines(render(seen)))
    else:
        from anycloud_cli.terminal import Screen

        with Screen(sys.stdout) as refresh:
            yield lambda seen: refresh(render(seen))


def _on_change(emit: Callable[[Any], None]) -> Callable[[Any], None]:
    last: list[Any] = []

    def show(seen: Any) -> None:
        if last != [seen]:
            last[:] = [seen]
            emit(seen)

    return show
