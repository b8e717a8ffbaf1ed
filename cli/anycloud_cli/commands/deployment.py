"""`anycloud deployment`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from anycloud_cli.client import path
from anycloud_cli.groups import AliasGroup
from anycloud_cli.options import assignments, env_file, json_option, require, wait_option
from anycloud_cli.session import Session, pass_session
from anycloud_cli.views import deployment as view

F = TypeVar("F", bound=Callable[..., Any])
_ALIASES = {
    "ls": "list",
    "get": "list",
    "describe": "status",
    "update": "upgrade",
    "terminate": "delete",
    "rm": "delete",
}
_DOCKER = {"gpus": "gpus", "runtime": "runtime", "shm_size": "shmSize", "memory": "memory", "cpus": "cpus"}
_PRIVILEGED = (
    "Wide Linux capabilities and the host's devices, KVM too where the Node has it. Such a Deployment can harm its "
    "Node and its neighbours: for trusted code on capacity of its own."
)


@click.group(cls=AliasGroup, aliases=_ALIASES)
def deployment() -> None:
    """Containers that keep running and accept Jobs."""


def container_options(command: F) -> F:
    """What create and upgrade both accept."""
    options = [
        click.option("--gpus", metavar="all|N", help="GPUs of a replica; without it all of one VM, or none on CPUs."),
        click.option("--runtime", metavar="nvidia|runc", help="Container runtime."),
        click.option("--shm-size", metavar="SIZE", help="Size of /dev/shm."),
        click.option("--memory", metavar="SIZE", help="Memory, as request and as limit."),
        click.option("--cpus", metavar="N", help="CPUs, as request and as limit."),
        click.option("--bind", multiple=True, metavar="PATH", help="Disposable volume at that path; repeatable."),
        click.option("--secret", multiple=True, metavar="NAME", help="Keys of a Secret as environment; repeatable."),
        click.option("--max-concurrent-jobs-per-replica", type=int, metavar="COUNT", help="Jobs at once."),
        click.option("--readiness-probe", metavar="JSON", help="Kubernetes exec probe."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@deployment.command()
@click.argument("name")
@click.argument("image")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--node-pool", metavar="ID-OR-NAME", help="The node pool that it runs on, for its whole life.")
@container_options
@click.option("--privileged", is_flag=True, default=None, help=_PRIVILEGED)
@click.option("--env", "-e", "env", multiple=True, metavar="KEY[=VALUE]", help="Environment variable; repeatable.")
@click.option("--env-file", type=click.Path(path_type=Path), help="File of KEY=VALUE lines; --env wins over it.")
@wait_option("Wait until it is ready, with the exit codes of `anycloud wait`.")
@json_option
@pass_session
def create(session: Session, /, name: str, image: str, wait: bool, **given: Any) -> int:
    """Create a Deployment. Returns as soon as that is recorded."""
    require({"--node-pool": given["node_pool"]})
    environment = env_file(given["env_file"]) if given["env_file"] else {}
    environment |= assignments(given["env"], "--env")
    body = {"name": name, "image": image, "nodePool": given["node_pool"], **_settings(given)}
    if environment:
        body["env"] = environment
    answer = session.api.request("POST", path("deployments"), body=body)
    made = answer["deployment"]
    follow = f"Follow it with `anycloud deployment status {made['name']}`."
    return _recorded(session, answer, f"Creating Deployment {made['name']} ({made['id']}). {follow}", wait)


@deployment.command("list")
@click.option("--node-pool", metavar="ID-OR-NAME", help="Only Deployments on this node pool.")
@json_option
@pass_session
def list_deployments(session: Session, node_pool: str | None) -> None:
    """List Deployments from stored facts, without asking Kubernetes."""
    answer = session.listed(path("deployments"), {"nodePool": node_pool})
    session.out.result(answer, view.listing(answer["deployments"], session.clock.now_ms()))


@deployment.command()
@click.argument("deployment_ref", metavar="ID-OR-ACTIVE-NAME")
@click.option("--verbose", is_flag=True, help="Show the Pod, and revisions as requested, applied and observed.")
@json_option
@pass_session
def status(session: Session, deployment_ref: str, verbose: bool) -> None:
    """Show one Deployment with its live state."""
    answer = session.api.get(path("deployments", deployment_ref))
    session.out.result(answer, view.status(answer["deployment"], session.clock.now_ms(), verbose))


@deployment.command()
@click.argument("deployment_ref", metavar="ID-OR-ACTIVE-NAME")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--image", help="The new image.")
@container_options
@click.option("--privileged/--no-privileged", default=None, help=f"{_PRIVILEGED} --no-privileged stores false.")
@click.option("--no-secret", is_flag=True, help="Remove every reference to a Secret.")
@wait_option("Wait until the Pod of the new revision is ready, with the exit codes of `anycloud wait`.")
@json_option
@pass_session
def upgrade(session: Session, /, deployment_ref: str, wait: bool, **given: Any) -> int:
    """Change a Deployment: what is given changes, all else stays. Running Jobs finish first."""
    if given["no_secret"] and given["secret"]:
        raise click.UsageError("--secret and --no-secret exclude each other.", click.get_current_context())
    body = _settings(given)
    if given["image"] is not None:
        body["image"] = given["image"]
    if given["no_secret"]:
        body["secrets"] = []
    if not body:
        raise click.UsageError("Nothing to change: give at least one option or a command.", click.get_current_context())
    answer = session.api.request("PATCH", path("deployments", deployment_ref), body=body)
    changed = answer["deployment"]
    number = changed["generation"] - 1
    follow = f"Follow it with `anycloud deployment status {changed['name']}`."
    return _recorded(session, answer, f"Upgrade {number} of {changed['name']} started. {follow}", wait)


@deployment.command()
@click.argument("deployment_ref", metavar="ID-OR-ACTIVE-NAME")
@json_option
@pass_session
def delete(session: Session, deployment_ref: str) -> None:
    """Delete a Deployment: queued Jobs end, running ones finish. Returns as soon as that is recorded."""
    answer = session.api.request("DELETE", path("deployments", deployment_ref))
    found = answer["deployment"]
    follow = f"Follow it with `anycloud deployment status {found['id']}`."
    session.out.result(answer, [f"Deleting Deployment {found['name']} ({found['id']}). {follow}"])


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """The part of a request body that create and upgrade share; only what was given."""
    body: dict[str, Any] = {}
    docker = {field: given[option] for option, field in _DOCKER.items() if given[option] is not None}
    if given["bind"]:
        docker["binds"] = list(given["bind"])
    if given["privileged"] is not None:
        docker["privileged"] = given["privileged"]
    if docker:
        body["dockerOptions"] = docker
    if given["command"]:
        body["command"] = list(given["command"])
    if given["secret"]:
        body["secrets"] = list(given["secret"])
    if given["max_concurrent_jobs_per_replica"] is not None:
        body["maxConcurrentJobsPerReplica"] = given["max_concurrent_jobs_per_replica"]
    if given["readiness_probe"] is not None:
        body["readinessProbe"] = _probe(given["readiness_probe"])
    return body


def _recorded(session: Session, answer: dict[str, Any], said: str, wait: bool) -> int:
    if not wait:
        session.out.result(answer, [said])
        return 0
    from anycloud_cli.waiting import DeploymentTarget, follow

    if session.out.as_json:
        session.out.record(answer)
    else:
        session.out.note(said)
    made = answer["deployment"]
    return follow(session, [DeploymentTarget(session.api, made["id"], revision=made["generation"])])


def _probe(text: str) -> Any:
    try:
        probe = json.loads(text)
    except ValueError:
        probe = text
    if probe is None or isinstance(probe, dict):
        return probe
    raise click.UsageError(
        """--readiness-probe takes a JSON object such as '{"exec":{"command":["/app/check-ready"]}}', or null.""",
        click.get_current_context(),
    )
