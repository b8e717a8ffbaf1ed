"""`anycloud secrets`: values go to the API and never come back."""

from __future__ import annotations

import click

from anycloud_cli.client import path
from anycloud_cli.durations import age
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import assignments, json_option
from anycloud_cli.output import table
from anycloud_cli.session import Session, pass_session


@click.group(cls=AliasGroup, aliases={"ls": "list", "get": "list", "rm": "delete"})
def secrets() -> None:
    """Named Secrets for Deployments."""


@secrets.command()
@click.argument("name")
@click.argument("values", nargs=-1, metavar="KEY[=VALUE]...")
@json_option
@pass_session
def new(session: Session, name: str, values: tuple[str, ...]) -> None:
    """Save a Secret, in place of one of that name. KEY alone takes its value from the environment."""
    if not values:
        raise click.UsageError("Give at least one KEY=VALUE.", click.get_current_context())
    given = assignments(values, f"Secret {name}")
    session.api.request("PUT", path("secrets", name), body={"values": given})
    keys = ", ".join(given)
    session.out.result({"name": name, "keys": list(given)}, [f"Saved Secret {name} with {keys}."])


@secrets.command("list")
@json_option
@pass_session
def list_secrets(session: Session) -> None:
    """List Secrets: names and times, no values."""
    saved = session.api.get(path("secrets"))
    now = session.clock.now_ms()
    rows = [(entry["name"], age(entry["createdAt"], now), age(entry["updatedAt"], now)) for entry in saved]
    session.out.result(saved, table(("NAME", "AGE", "UPDATED"), rows))


@secrets.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Delete it although Deployments use it: they stop reconciling.")
@json_option
@pass_session
def delete(session: Session, name: str, force: bool) -> None:
    """Delete a Secret that no Deployment references."""
    session.api.request("DELETE", path("secrets", name), query={"force": True} if force else None)
    session.out.result({"name": name, "deleted": True}, [f"Deleted Secret {name}."])
