"""Entry point: runs a command and turns every ending into an exit code and at most one sentence on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from anycloud_cli.app import root
from anycloud_cli.failures import INTERRUPTED, REFUSED, USAGE, Failure
from anycloud_cli.session import Session


def main(argv: Sequence[str] | None = None, session: Session | None = None) -> int:
    """The exit code of `anycloud <argv>`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    session = session or Session()
    try:
        return _run(arguments, session)
    except BrokenPipeError:  # the reader of stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, EOFError, click.Abort):
        session.out.note("Interrupted.")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("ANYCLOUD_TRACEBACK"):
            raise
        session.out.note(_unforeseen(error))
        return REFUSED


def _run(arguments: list[str], session: Session) -> int:
    try:
        with root.make_context("anycloud", arguments, obj=session) as context:
            code = root.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.exceptions.NoArgsIsHelpError as nothing:
        session.out.note(nothing.format_message())
        return USAGE
    except click.UsageError as error:
        session.out.note(_usage(error))
        return USAGE
    except click.ClickException as error:
        session.out.note(error.format_message())
        return error.exit_code
    except Failure as failure:
        session.out.note(failure.sentence())
        return failure.exit_code


def _usage(error: click.UsageError) -> str:
    where = error.ctx.command_path if error.ctx else "anycloud"
    return f"{error.format_message()} See `{where} --help`."


def _unforeseen(error: Exception) -> str:
    """A bug, or an answer that no Anycloud API gives. The text of the error is left out: it may hold anything."""
    return f"Unexpected {type(error).__name__}; ANYCLOUD_TRACEBACK=1 shows where."


if __name__ == "__main__":
    sys.exit(main())
