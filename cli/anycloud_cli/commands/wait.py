"""`anycloud wait`."""

from __future__ import annotations

import click

from anycloud_cli.options import Duration, json_option
from anycloud_cli.session import Session, pass_session


@click.command()
@click.argument("references", nargs=-1, required=True, metavar="REF...")
@click.option(
    "--timeout", type=Duration(), metavar="DURATION", help="Such as 90, 30m or 2h; the work goes on after it."
)
@json_option
@pass_session
def wait(session: Session, references: tuple[str, ...], timeout: float | None) -> int:
    """Wait until every REF has reached its target: a Job is completed, a Deployment's Pod on its latest revision is
    ready, a node pool or cluster is running.

    REF is a Job's id, deployment/ID, node-pool/ID or cluster/ID. Exit codes: 0 all reached, 1 one ended otherwise,
    2 cannot be observed, 4 the timeout is over, 130 interrupted. Waiting never ends or restarts anything.
    """
    from anycloud_cli.waiting import follow, observing, target

    with observing():
        targets = [target(session.api, reference) for reference in references]
    return follow(session, targets, timeout)
