"""`anycloud credentials`: key material goes from the environment or a hidden prompt straight to the API."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import click

from anycloud_cli.client import path
from anycloud_cli.failures import USAGE, Failure
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import json_option
from anycloud_cli.output import MISSING, table
from anycloud_cli.session import Session, pass_session


class Part(NamedTuple):
    """One piece of a credential: its names in the API, in the environment and at a prompt."""

    field: str
    variable: str
    prompt: str
    hidden: bool = False


_PARTS: dict[str, tuple[Part, ...]] = {
    "AWS": (
        Part("accessKeyId", "AWS_ACCESS_KEY_ID", "Access key ID"),
        Part("secretAccessKey", "AWS_SECRET_ACCESS_KEY", "Secret access key", hidden=True),
    ),
    "GCP": (),
    "Azure": (
        Part("applicationId", "AZURE_CLIENT_ID", "Application (client) ID"),
        Part("directoryId", "AZURE_TENANT_ID", "Directory (tenant) ID"),
        Part("secret", "AZURE_CLIENT_SECRET", "Client secret", hidden=True),
        Part("subscriptionId", "AZURE_SUBSCRIPTION_ID", "Subscription ID"),
    ),
    "Lambda": (Part("apiKey", "LAMBDA_API_KEY", "API key", hidden=True),),
    "Cloudflare": (
        Part("accountId", "CLOUDFLARE_ACCOUNT_ID", "Account ID"),
        Part("apiToken", "CLOUDFLARE_API_TOKEN", "API token", hidden=True),
    ),
}
_SERVICE_ACCOUNT = {"projectId": "project_id", "clientEmail": "client_email", "privateKey": "private_key"}
_IDENTITY = ("accessKeyId", "clientEmail", "applicationId", "accountId")


@click.group(cls=AliasGroup, aliases={"ls": "list", "get": "list", "rm": "delete"})
def credentials() -> None:
    """Cloud credentials that the active API holds."""


@credentials.command()
@click.argument("name")
@click.option("--provider", required=True, type=click.Choice(list(_PARTS), case_sensitive=False), help="The cloud.")
@click.option("--overwrite", is_flag=True, help="Replace a credential of that name.")
@json_option
@pass_session
def new(session: Session, name: str, provider: str, overwrite: bool) -> None:
    """Save a credential.

    Keys are read from the cloud's usual environment variables (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY;
    GOOGLE_APPLICATION_CREDENTIALS, a service account's key file; AZURE_CLIENT_ID, AZURE_TENANT_ID,
    AZURE_CLIENT_SECRET and AZURE_SUBSCRIPTION_ID), or asked for in a terminal. They are never arguments.
    """
    material = {"cloudProvider": provider, **_material(session, provider)}
    query = {"overwrite": True} if overwrite else None
    session.api.request("PUT", path("credentials", name), query=query, body=material)
    session.out.result({"name": name, "cloudProvider": provider}, [f"Saved credential {name} ({provider})."])


@credentials.command("list")
@json_option
@pass_session
def list_credentials(session: Session) -> None:
    """List credentials, without their secret parts."""
    from anycloud_cli.world import in_sandbox

    saved = session.api.get(path("credentials"))
    world = " (sandbox)" if in_sandbox(session) else ""
    rows = [
        (entry["name"], entry["cloudProvider"] + world, _identity(entry), "refused" if "authFailedAt" in entry else "")
        for entry in saved
    ]
    session.out.result(saved, table(("NAME", "PROVIDER", "IDENTITY", "STATE"), rows))


@credentials.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Delete it although something uses it.")
@json_option
@pass_session
def delete(session: Session, name: str, force: bool) -> None:
    """Delete a credential."""
    session.api.request("DELETE", path("credentials", name), query={"force": True} if force else None)
    session.out.result({"name": name, "deleted": True}, [f"Deleted credential {name}."])


def _identity(entry: dict[str, Any]) -> str:
    return next((entry[key] for key in _IDENTITY if entry.get(key)), MISSING)


def _material(session: Session, provider: str) -> dict[str, str]:
    if provider == "GCP":
        return _service_account(session)
    if provider == "AWS" and os.environ.get("AWS_SESSION_TOKEN"):
        raise Failure(
            "AWS_SESSION_TOKEN is set: keys of a session expire; give the keys of an IAM user.", exit_code=USAGE
        )
    parts = _PARTS[provider]
    values = {part.field: os.environ.get(part.variable, "").strip() for part in parts}
    missing = [part for part in parts if not values[part.field]]
    if missing and not session.interactive:
        raise Failure(f"Set {_named(missing)} in the environment.", exit_code=USAGE)
    for part in missing:
        values[part.field] = str(click.prompt(part.prompt, hide_input=part.hidden, err=True)).strip()
    return values


def _named(parts: list[Part]) -> str:
    names = [part.variable for part in parts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _service_account(session: Session) -> dict[str, str]:
    location = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip()
    if not location and not session.interactive:
        said = "Set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account."
        raise Failure(said, exit_code=USAGE)
    location = location or str(click.prompt("Key file of a service account", err=True)).strip()
    try:
        key = json.loads(Path(location).expanduser().read_text("utf-8"))
    except OSError as error:
        raise Failure(f"Cannot read {location}: {error.strerror}.", exit_code=USAGE) from None
    except ValueError:
        raise Failure(f"{location} isn't JSON; give the key file of a service account.", exit_code=USAGE) from None
    if not isinstance(key, dict) or key.get("type") != "service_account":
        raise Failure(f"{location} isn't the key of a service account; a person's login expires.", exit_code=USAGE)
    values = {field: key.get(name) for field, name in _SERVICE_ACCOUNT.items()}
    absent = [_SERVICE_ACCOUNT[field] for field, value in values.items() if not isinstance(value, str) or not value]
    if absent:
        raise Failure(f"{location} lacks {', '.join(absent)}.", exit_code=USAGE)
    return {field: str(value) for field, value in values.items()}
