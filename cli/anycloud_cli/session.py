"""What every command works with: the streams, the clock, the configuration directory and the active API."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from anycloud_cli.clock import Clock
from anycloud_cli.output import Output

if TYPE_CHECKING:
    from anycloud_cli.client import Client, Query
    from anycloud_cli.directory import Directory
    from anycloud_cli.failures import Failure
    from anycloud_cli.target import Target


_RIDE_OUT_SECONDS = 10.0


class Session:
    """Made once a run. What costs start-up time is made when first used."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.out = Output()

    @cached_property
    def directory(self) -> Directory:
        from anycloud_cli.directory import Directory

        return Directory.of(os.environ)

    @cached_property
    def target(self) -> Target:
        from anycloud_cli import target

        return target.active(self.directory, os.environ)

    @cached_property
    def api(self) -> Client:
        """The active API. One that is expected to be there is given some seconds when it doesn't answer."""
        from anycloud_cli.client import Client
        from anycloud_cli.patience import Patience
        from anycloud_cli.world import is_supervised

        expected = not self.target.local or is_supervised(self.directory)
        if not expected:
            return Client(self.target)
        return Client(self.target, Patience(self.clock, _RIDE_OUT_SECONDS, self.complain))

    def listed(self, at: str, query: Query | None = None, way: str = "") -> Any:
        """The answer of a list. When there is more than it holds, stderr says so, and `way` how to see more."""
        answer, total = self.api.page(at, query)
        if total is not None:
            shown = answer if isinstance(answer, list) else next(iter(answer.values()))
            self.out.remark(f"These are the newest {len(shown):,} of {total:,}. {way}".rstrip())
        return answer

    def complain(self, failure: Failure) -> None:
        """Says why a request is repeated, once for as long as the reason is the same."""
        self.out.remark(f"{failure.sentence()} Trying again.")

    @property
    def interactive(self) -> bool:
        """Whether questions may be asked: a person at both ends, and no JSON asked for."""
        return not self.out.as_json and sys.stdin.isatty() and sys.stderr.isatty()


pass_session = click.make_pass_decorator(Session)
