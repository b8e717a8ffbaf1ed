"""`anycloud job`: submits an image to a node pool or work to a Deployment, and lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from anycloud_cli.client import path
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import Duration, json_option, wait_option
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import workload as view

F = TypeVar("F", bound=Callable[..., Any])

_MOST = 1000
_MORE = f"`-n` shows up to {_MOST:,}."
_ARGS = f"{__name__}.args"
_PRIVILEGED = "Wide Linux capabilities and the host's devices: for trusted code on capacity of its own."


class _JobGroup(AliasGroup):
    """A first word that is no command of it is an image: the whole line is then the hidden command's, whose options
    may stand before and behind the image."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGS] = list(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            return _IMAGE, submit_image, ctx.meta[_ARGS]
        return super().resolve_command(ctx, args)


class _ImageContext(click.Context):
    """What help and errors call the hidden command."""

    @property
    def command_path(self) -> str:
        assert self.parent is not None, "it is a group's"
        return self.parent.command_path


class _ImageCommand(click.Command):
    context_class = _ImageContext


def submission_options(command: F) -> F:
    """All that a Job can be submitted with."""
    options = [
        click.option(
            "--deployment", metavar="ID-OR-ACTIVE-NAME", help="The Deployment that runs it, without an image."
        ),
        click.option("--node-pool", metavar="ID-OR-NAME", help="The node pool that runs its image."),
        click.option(
            "--cluster", metavar="ID-OR-NAME", help="The cluster whose only running node pool runs its image."
        ),
        click.option("--id", "-i", "job_id", metavar="ID", help="The Job's id; a new one is made without it."),
        click.option(
            "--timeout", type=Duration(), metavar="SECONDS", help="Longest time until a Deployment's worker takes it."
        ),
        click.option(
            "--time-limit", type=Duration(), metavar="SECONDS", help="Longest time that its container may run."
        ),
        click.option("--gpus", metavar="all|N", help="GPUs; without it all of one VM, or none on CPUs."),
        click.option("--runtime", metavar="nvidia|runc", help="Container runtime."),
        click.option("--shm-size", metavar="SIZE", help="Size of /dev/shm."),
        click.option("--memory", metavar="SIZE", help="Memory, as request and as limit."),
        click.option("--cpus", metavar="N", help="CPUs, as request and as limit."),
        click.option("--bind", multiple=True, metavar="PATH", help="Disposable volume at that path; repeatable."),
        click.option("--privileged", is_flag=True, default=None, help=_PRIVILEGED),
        click.option("--secret", multiple=True, metavar="NAME", help="Keys of a Secret as environment; repeatable."),
        click.option("--env", "-e", multiple=True, metavar="KEY[=VALUE]", help="Environment variable; repeatable."),
        click.option(
            "--env-file", type=click.Path(path_type=Path), help="File of KEY=VALUE lines; --env wins over it."
        ),
        *(click.option(flag, hidden=True, multiple=True) for flag in ("--credentials", "--region", "--zone")),
        *(click.option(flag, hidden=True, multiple=True) for flag in ("--vm-type", "--gpu-type", "--disk-size")),
        click.option("--spot", is_flag=True, default=None, hidden=True),
        wait_option("Wait until the Job is completed, with the exit codes of `anycloud wait`."),
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(
    cls=_JobGroup,
    aliases={"ls": "list"},
    invoke_without_command=True,
    subcommand_metavar="[IMAGE [-- COMMAND...] | list]",
)
@submission_options
@click.pass_context
def job(ctx: click.Context, /, wait: bool, **given: Any) -> int | None:
    """Submit a Job: an IMAGE that runs once on a node pool, or work for a --deployment."""
    session = ctx.ensure_object(Session)
    if ctx.invoked_subcommand == _IMAGE:
        return None
    if ctx.invoked_subcommand is not None:
        if wait or any(given.values()):
            raise click.UsageError(f"Put the options behind `{ctx.invoked_subcommand}`.", ctx)
        return None
    from anycloud_cli.commands import job_submission

    return job_submission.to_deployment(session, given, wait)


@click.command(cls=_ImageCommand, hidden=True)
@click.argument("image")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@submission_options
@pass_session
def submit_image(session: Session, /, image: str, wait: bool, **given: Any) -> int:
    """Run an image once on a node pool."""
    from anycloud_cli.commands import job_submission

    return job_submission.to_node_pool(session, image, given, wait)


_IMAGE = "image"


@job.command("list")
@click.option("--deployment", metavar="ID", help="Only Jobs of this Deployment, which may be deleted already.")
@click.option("-n", "count", type=click.IntRange(1, _MOST), default=200, show_default=True, help="The newest so many.")
@click.option("--status", metavar="STATE", help="Only Jobs in this state.")
@click.option("--filter", "text", metavar="TEXT", help="Only Jobs that match the text.")
@click.option("--watch", is_flag=True, help="Refresh one Deployment's Jobs until stopped.")
@click.option("--interval", type=click.FloatRange(min=1), default=5.0, show_default=True, metavar="SECONDS")
@json_option
@pass_session
def list_jobs(
    session: Session,
    /,
    *,
    deployment: str | None,
    count: int,
    status: str | None,
    text: str | None,
    watch: bool,
    interval: float,
) -> None:
    """List Jobs, newest first."""
    query = {"workloadType": "job", "deploymentId": deployment, "limit": count, "status": status, "filter": text}

    def fetch() -> Any:
        return session.listed(path("workloads"), query, _MORE if count < _MOST else "")

    def render(jobs: list[dict[str, Any]]) -> list[str]:
        return view.listing(jobs, session.clock.now_ms())

    if not watch:
        jobs = fetch()
        session.out.result(jobs, render(jobs))
        return
    if deployment is None or status or text or session.out.as_json:
        raise click.UsageError("--watch needs --deployment, and goes without --status, --filter and --json.")
    from anycloud_cli.watching import watch as follow

    follow(session, fetch, render, lambda jobs: False, interval)
