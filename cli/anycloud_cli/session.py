"""What every command works with: the streams, the clock, the configuration directory and the active API."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING

import click

from anycloud_cli.clock import Clock
from anycloud_cli.output import Output

if TYPE_CHECKING:
    from anycloud_cli.client import Client
    from anycloud_cli.directory import Directory
    from anycloud_cli.target import Target


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
        from anycloud_cli.client import Client

        return Client(self.target)

    @property
    def interactive(self) -> bool:
        """Whether questions may be asked: a person at both ends, and no JSON asked for."""
        return not self.out.as_json and sys.stdin.isatty() and sys.stderr.isatty()


pass_session = click.make_pass_decorator(Session)
