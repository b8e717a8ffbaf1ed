"""`anycloud login` and `logout`: who you are at GitHub, which clusters and hosted APIs go by."""

from __future__ import annotations

import os
from typing import Final

import click

from anycloud_cli import sign_in, supervisor
from anycloud_cli import target as targets
from anycloud_cli.failures import Failure
from anycloud_cli.options import json_option
from anycloud_cli.session import Session, pass_session

_WEB: Final = "https://github.com"
_API: Final = "https://api.github.com"
_CLIENT_ID: Final = "ANYCLOUD_GITHUB_CLIENT_ID"


@click.command()
@click.argument("url", metavar="[API-URL]", required=False)
@json_option
@pass_session
def login(session: Session, url: str | None) -> None:
    """Sign in at GitHub with a code that you enter there.

    With the URL of a hosted API, that sign-in (or one that is already here) is traded for a token of that API.
    """
    if url is None:
        name = _sign_in(session)
        facts = {"login": name, "file": str(session.directory.path / targets.SIGN_IN_FILE)}
        session.out.result(facts, [f"Signed in as {name}."])
        return
    chosen = targets.normalise(url)
    if targets.is_local(chosen):
        raise Failure(f"{chosen} is the local API, which needs no sign-in of its own; run `anycloud login`.")
    if targets.github_token(session.directory, os.environ) is None:
        _sign_in(session)
    targets.store_token(session.directory, chosen, sign_in.exchange(session, chosen))
    session.out.result({"url": chosen}, [f"A token of {chosen} is stored; `anycloud api use {chosen}` goes there."])


@click.command()
@json_option
@pass_session
def logout(session: Session) -> None:
    """Forget the GitHub sign-in and the tokens of hosted APIs on this machine."""
    removed = [name for name in (targets.SIGN_IN_FILE, targets.TOKENS_FILE) if session.directory.remove(name)]
    if os.environ.get("GITHUB_TOKEN"):
        session.out.note("GITHUB_TOKEN is set in the environment and still signs you in.")
    lines = ["Signed out on this machine; the tokens themselves are valid until they are revoked."]
    session.out.result({"removed": removed}, lines if removed else ["Nobody was signed in."])


def _sign_in(session: Session) -> str:
    """Goes through the device flow, stores the token, and returns the login."""
    github = _github(session)
    code = sign_in.start(github)
    session.out.note(f"Open {code.page} and enter the code {code.user}")
    session.out.note(f"Waiting for your approval, for {code.lasts / 60:.0f} minutes at most.")
    token = sign_in.finish(github, code, session.clock)
    name = sign_in.who(github, token)
    session.directory.write(targets.SIGN_IN_FILE, token)
    return name


def _github(session: Session) -> sign_in.GitHub:
    """github.com; for an installation in the sandbox, the sandbox's."""
    state = supervisor.state(session)
    if state and state["sandbox"]:
        if not state["alive"]:
            raise Failure("The sandbox that stands in for GitHub isn't running; run `anycloud api start --sandbox`.")
        world = f"{state['sandboxUrl']}/github"
        return sign_in.GitHub(world, world, "sandbox")
    client_id = os.environ.get(_CLIENT_ID, "").strip()
    if not client_id:
        file = session.directory.path / targets.SIGN_IN_FILE
        raise Failure(
            f"A sign-in at GitHub needs an OAuth app with device flow: set {_CLIENT_ID} to its client id, or put a "
            f"GitHub token into GITHUB_TOKEN or into {file}."
        )
    return sign_in.GitHub(_WEB, _API, client_id)
