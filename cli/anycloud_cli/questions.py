"""What `cluster create` asks a person for."""

from __future__ import annotations

import anycloud_catalog
import click

from anycloud_cli.client import path
from anycloud_cli.failures import Failure
from anycloud_cli.session import Session


def ask_for_cluster(
    session: Session, credential: str | None, vm_type: str | None, region: str | None
) -> dict[str, str | None]:
    """The three with what was left out asked for. The VM type comes before the region, which must have it."""
    if credential and vm_type and region:
        return {}
    saved = {entry["name"]: entry["cloudProvider"] for entry in session.api.get(path("credentials"))}
    credential = credential or _credential(saved)
    provider = saved.get(credential, "")
    vm_type = vm_type or _choose("VM type", _vm_types(provider, region))
    region = region or _choose("Region", anycloud_catalog.regions_with(provider, vm_type))
    return {"credentials": credential, "vm_type": vm_type, "region": region}


def _credential(saved: dict[str, str]) -> str:
    fit = tuple(name for name, provider in saved.items() if provider in anycloud_catalog.PROVIDERS)
    if not fit:
        said = f"This API holds no credential of {', '.join(anycloud_catalog.PROVIDERS)}."
        raise Failure(said, next_command="anycloud credentials new <name> --provider <provider>")
    return _choose("Credential", fit)


def _vm_types(provider: str, region: str | None) -> tuple[str, ...]:
    fit = (kind for kind in anycloud_catalog.vm_types(provider) if kind.arch == "x86_64" and not kind.gpus)
    return tuple(kind.name for kind in fit if region is None or region in kind.regions)


def _choose(what: str, offered: tuple[str, ...]) -> str:
    """One of the offered. Where the catalog offers none, what is typed is taken, and the API judges it."""
    if not offered:
        return str(click.prompt(what, err=True)).strip()
    click.echo(f"{what}: {', '.join(offered)}", err=True)
    return str(click.prompt(what, type=click.Choice(offered), show_choices=False, err=True))
