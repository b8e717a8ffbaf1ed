"""The root command and the table of everything below it."""

from __future__ import annotations

import click

from anycloud_cli import VERSION
from anycloud_cli.groups import Lazy, LazyGroup

_COMMANDS = {
    "api": Lazy("api", "api", "Start, stop and look at the local API; choose the API that commands go to."),
    "login": Lazy("login", "login", "Sign in at GitHub, for clusters and hosted APIs."),
    "logout": Lazy("login", "logout", "Forget the GitHub sign-in and the tokens of hosted APIs."),
    "credentials": Lazy("credentials", "credentials", "Cloud credentials that the active API holds."),
    "cluster": Lazy("cluster", "cluster", "The installation's Kubernetes cluster."),
    "node-pool": Lazy("node_pool", "node_pool", "VMs that join the cluster."),
    "deployment": Lazy("deployment", "deployment", "Containers that keep running and accept Jobs."),
    "job": Lazy("job", "job", "Submit Jobs to a node pool or a Deployment, and list them."),
    "status": Lazy("workload", "status", "Show one Job."),
    "wait": Lazy("wait", "wait", "Wait until Jobs, Deployments, node pools or clusters are done or ready."),
    "logs": Lazy("logs", "logs", "Print the output of a Deployment's newest Pod, or of a Job."),
    "exec": Lazy("job_access", "exec_command"),
    "ssh": Lazy("job_access", "ssh"),
    "terminate": Lazy("workload", "terminate", "Ask for the end of a Job."),
    "resubmit": Lazy("workload", "resubmit", "Run a finished Job again."),
    "secrets": Lazy("secrets", "secrets", "Named Secrets for Deployments and Jobs."),
    "db": Lazy("db", "db", "Read the active API's database."),
}


@click.group(
    cls=LazyGroup,
    lazy=_COMMANDS,
    name="anycloud",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(VERSION, message="anycloud %(version)s")
def root() -> None:
    """Run containers on machines in your own cloud accounts, through one API that you own."""
