"""Groups of commands with aliases, whose modules are imported when one of their commands runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Lazy(NamedTuple):
    """Where a command is: a module below `anycloud_cli.commands`, the attribute in it, and the line of help for it;
    without that line help doesn't list it."""

    module: str
    attribute: str
    summary: str = ""


class AliasGroup(click.Group):
    """A group whose commands have further names. Help lists a command once, with its aliases behind it."""

    def __init__(self, *args: Any, aliases: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.aliases = dict(aliases or {})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(self._label(name), self._summary(ctx, name)) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are written, not sorted

    def _label(self, name: str) -> str:
        return ", ".join([name, *(alias for alias, meant in self.aliases.items() if meant == name)])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=100) if command else ""


class LazyGroup(AliasGroup):
    """A group that knows its commands by name and summary only."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, lazy in self.lazy.items() if lazy.summary]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.lazy.get(self.aliases.get(cmd_name, cmd_name))
        if found is None:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"anycloud_cli.commands.{found.module}"), found.attribute
        )
        return command

    def _summary(self, ctx: click.Context, name: str) -> str:
        return self.lazy[name].summary
