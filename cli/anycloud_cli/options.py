"""Options that several commands share, and checks of what was given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from anycloud_cli import durations
from anycloud_cli.session import Session

F = TypeVar("F", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """Seconds, or a number with s, m, h or d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else durations.parse(str(value))
        except ValueError:
            self.fail(f"{value!r} isn't a duration such as 90, 30m or 2h.", param, ctx)


def _use_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    if value:
        ctx.ensure_object(Session).out.as_json = True
    return value


json_option = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_use_json,
    help="Print JSON on stdout, and nothing else there.",
)


def watch_options(command: F) -> F:
    """`--watch` and `--interval`."""
    interval = click.option(
        "--interval",
        type=click.FloatRange(min=1),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="Time between two looks with --watch.",
    )
    return click.option("--watch", is_flag=True, help="Look again and again until it is done.")(interval(command))


def wait_option(meaning: str) -> Callable[[F], F]:
    """`--wait`, with what it waits for."""
    return click.option("--wait", "wait", is_flag=True, help=meaning)


def require(given: Mapping[str, object]) -> None:
    """Refuses with every missing flag named, not only the first."""
    missing = [flag for flag, value in given.items() if value is None or value == ()]
    if missing:
        raise click.UsageError(f"Missing {_listed(missing)}.", click.get_current_context())


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def assignments(given: Iterable[str], where: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`KEY=VALUE` as it stands; `KEY` alone takes its value from the environment. Errors name no value."""
    source = os.environ if environ is None else environ
    values: dict[str, str] = {}
    for entry in given:
        key, separator, value = entry.partition("=")
        if not key:
            raise click.UsageError(f"{where} has an entry without a key; give KEY=VALUE.")
        if not separator and key not in source:
            raise click.UsageError(f"{where} names {key} without a value, and the environment has no {key}.")
        values[key] = value if separator else source[key]
    return values


def env_file(path: Path) -> dict[str, str]:
    """Assignments of a file, one a line; blank lines and lines that start with # are skipped."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"Cannot read {path}.") from None
    return assignments((line for line in lines if line.strip() and not line.lstrip().startswith("#")), str(path))
