"""The demo as a newcomer runs it, line by line; a second run; the way back in the order that is demanded; the end.

The tests of this file are one story: each goes on where the one before it ended.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from anycloud_supervisor.identity import Identity

from tests.support.installation import ROOT, Installation, until

pytestmark = pytest.mark.timeout(240)
JOBS = 20
LINE = re.compile(r"job=(?P<job>\S+) execution=(?P<execution>\S+) pid=(?P<pid>\d+) (?P<what>.+)")


class Transcript:
    """What a run of the demo printed, command by command."""

    def __init__(self, text: str, seconds: float) -> None:
        self.text = text
        self.seconds = seconds
        typed = re.sub(r"^(?:\d\. |Done in ).*$", "", text, flags=re.MULTILINE)  # without the headlines
        parts = re.split(r"^\$ (.+)$", typed, flags=re.MULTILINE)
        self.commands = list(zip(parts[1::2], parts[2::2], strict=True))

    def said(self, command: str) -> str:
        """The output of the first command that begins like this."""
        return next(output for line, output in self.commands if line.startswith(command))

    def typed(self, command: str) -> bool:
        return any(line.startswith(command) for line, _ in self.commands)

    @property
    def jobs(self) -> list[str]:
        return list(dict.fromkeys(line.split()[0] for line in self.said("anycloud wait").splitlines() if line))

    @property
    def executions(self) -> list[dict[str, str]]:
        """The worker's own lines."""
        found = [LINE.fullmatch(line) for line in self.said("anycloud logs").splitlines()]
        return [line.groupdict() for line in found if line is not None]


def run_demo(installation: Installation) -> Transcript:
    """As `make demo` does, at a port of our own: a first start takes the one that was used last."""
    installation.directory.mkdir(mode=0o700, exist_ok=True)
    (installation.directory / "local-api-url").write_text(f"http://127.0.0.1:{installation.port}\n")
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo" / "demo.py")],
        env=installation.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return Transcript(done.stdout, time.monotonic() - begun)


@pytest.fixture(scope="module")
def first(installation: Installation) -> Transcript:
    return run_demo(installation)


@pytest.fixture(scope="module")
def bystander() -> Iterator[Identity]:
    """A process that looks like one of ours, and isn't."""
    words = [sys.executable, "-c", "import time; time.sleep(1000)", "-m", "anycloud_cluster"]
    process = subprocess.Popen(words)
    identity = Identity.of(process.pid)
    assert identity is not None
    yield identity
    process.kill()
    process.wait()


@pytest.mark.req("CL-002", "CLI-010")
def test_every_command_of_the_demo_tells_what_became_of_it(first: Transcript, installation: Installation) -> None:
    start = first.said("anycloud api start")
    ready = ("sandbox", "nodeagent", "cluster", "nodepool", "deployment", "release", "envoy")
    assert all(f"✓ {name}  ready" in start for name in ready)
    assert re.search(rf"^The local API serves at http://127\.0\.0\.1:{installation.port} \(pid \d+\)\.$", start, re.M)
    assert first.said("anycloud credentials new").strip() == "Saved credential demo-aws (AWS)."
    follow = r"Creating cluster demo \(cl-\w{12}\)\. Follow it with `anycloud cluster status demo --watch`\."
    assert re.fullmatch(follow, first.said("anycloud cluster create").strip())
    pool = first.said("anycloud node-pool create").strip().splitlines()
    assert re.fullmatch(r"node-pool/np-\w{12}  running", pool[-1])
    deployment = first.said("anycloud deployment create").strip().splitlines()
    assert re.fullmatch(r"deployment/dep-\w{12}  running", deployment[-1])
    assert "✓ ready  Ready for Jobs." in first.said("anycloud deployment status")
    assert first.text.rstrip().endswith("make stop")
    assert "\x1b" not in first.text


@pytest.mark.req("CL-055", "CL-057")
def test_watching_the_cluster_shows_its_states_in_order_and_ends_with_the_next_step(first: Transcript) -> None:
    watched = first.said("anycloud cluster status demo --watch")
    order = ["provisioning", "initializing", "starting", "running"]
    states = re.findall(r"^⚡  (\w+)$", watched, re.M)
    assert [state for state in order if state in states] == list(dict.fromkeys(states))
    assert states[-1] == "running"
    url = re.search(r"URL: +(http://127\.0\.0\.2:\d+)$", watched, re.M)
    assert url is not None
    assert watched.strip().splitlines()[-1].strip() == f"Next: anycloud api use {url[1]}"
    assert first.said(f"anycloud api use {url[1]}").strip() == f"Commands go to {url[1]}."


def test_each_of_twenty_jobs_is_executed_exactly_once(first: Transcript, installation: Installation) -> None:
    assert len(set(first.jobs)) == JOBS
    started = [line for line in first.executions if line["what"] == "started"]
    completed = [line for line in first.executions if line["what"].endswith(" completed")]
    of_worker = {line["job"]: (line["execution"], line["pid"]) for line in started}
    assert sorted(of_worker) == sorted(first.jobs)
    assert len(started) == len(completed) == JOBS
    assert of_worker == {line["job"]: (line["execution"], line["pid"]) for line in completed}
    assert len({pid for _, pid in of_worker.values()}) == JOBS
    assert {job: [execution] for job, (execution, _) in of_worker.items()} == claims(installation)
    for line in first.said("anycloud db query").strip().splitlines()[1:]:
        assert any(job in line and execution in line for job, (execution, _) in of_worker.items())
        assert " completed " in line


def claims(installation: Installation) -> dict[str, list[str]]:
    """Per Job the executions that the API has seen begin."""
    sql = "SELECT object_id AS job_id, json_extract(detail, '$.executionId') AS execution FROM deployment_event"
    sql += " WHERE reason = 'claimed' ORDER BY id"
    found: dict[str, list[str]] = {}
    for row in installation.ask("db", "query", sql)["rows"]:
        found.setdefault(row["job_id"], []).append(row["execution"])
    return found


@pytest.mark.req("CLI-008")
@pytest.mark.parametrize(
    "words",
    [
        "api status",
        "credentials list",
        "cluster list",
        "cluster status demo",
        "node-pool list",
        "node-pool status demo-pool",
        "deployment list",
        "deployment status demo-worker",
        "job list",
        "secrets list",
        "db schema",
        "db query SELECT~1",
    ],
)
def test_stdout_of_json_is_one_document(first: Transcript, installation: Installation, words: str) -> None:
    assert installation.ask(*(word.replace("~", " ") for word in words.split())) is not None


@pytest.mark.req("CLI-008")
def test_stdout_of_followed_json_is_one_value_a_line(first: Transcript, installation: Installation) -> None:
    job = first.jobs[0]
    waited = installation.cli("wait", job, "deployment/demo-worker", "node-pool/demo-pool", "--json").records
    assert [record["outcome"] for record in waited if record["type"] == "result"] == ["reached"] * 3
    watched = installation.cli("cluster", "status", "demo", "--watch", "--json").records
    assert watched[-1]["cluster"]["state"] == "running"
    logged = installation.cli("logs", "demo-worker", "--json").records
    assert any(job in line["text"] for line in logged)


@pytest.mark.req("CLI-009", "CLI-011")
def test_a_refusal_leaves_stdout_empty_with_json_too(first: Transcript, installation: Installation) -> None:
    for extra in ([], ["--json"]):
        refused = installation.cli("node-pool", "status", "no-such-pool", *extra, code=1)
        assert (refused.stdout, refused.stderr) == ("", "There is no node pool 'no-such-pool'.\n")


def test_a_second_run_makes_nothing_again_and_is_quick(first: Transcript, installation: Installation) -> None:
    second = run_demo(installation)
    assert "is already running" in second.said("anycloud api start")
    made = ("credentials new", "cluster create", "node-pool create", "deployment create")
    assert not any(second.typed(f"anycloud {command}") for command in made)
    assert len(second.jobs) == JOBS
    assert not set(second.jobs) & set(first.jobs)
    assert all(len(executions) == 1 for executions in claims(installation).values())
    assert second.seconds < max(first.seconds, 30)
    machines = installation.bought("machines")
    assert sorted(machine["tags"]["anycloud_role"] for machine in machines) == ["management", "pool", "pool"]


def test_stop_ends_every_process_and_nothing_else(
    first: Transcript, installation: Installation, bystander: Identity
) -> None:
    ran = installation.processes()
    assert {"hosted/supervisor", "worker"} <= {process.name for process in ran}
    recorded = {process["name"]: process["pid"] for process in installation.state()["processes"] if process["pid"]}
    assert set(recorded.values()) <= {process.identity.pid for process in ran}
    said = installation.cli("api", "stop").stdout
    assert said == f"Stopped {', '.join([*recorded, 'supervisor'])}.\n"
    assert not any(process.identity.alive for process in ran)
    assert installation.processes() == []
    assert bystander.alive
    assert installation.cli("api", "stop").stdout == "The local API is not running.\n"


def test_a_later_start_brings_everything_back(first: Transcript, installation: Installation) -> None:
    again = installation.start()
    assert "Commands still go to http://127.0.0.2:" in again.stdout
    installation.cli("api", "use", again.stdout.split("Commands still go to ")[1].split(";")[0])
    installation.cli("wait", "deployment/demo-worker", "node-pool/demo-pool", "--timeout", "60s")
    job = installation.ask("job", "--deployment", "demo-worker")["id"]
    installation.cli("wait", job, "--timeout", "60s")
    executions = claims(installation)
    assert {*first.jobs, job} <= set(executions)
    assert all(len(of_job) == 1 for of_job in executions.values())


@pytest.mark.req("CL-002", "CL-102", "CL-103", "CLI-003")
def test_deleting_goes_in_order_and_each_refusal_names_the_next_command(
    first: Transcript, installation: Installation
) -> None:
    url = installation.ask("cluster", "status", "demo")["cluster"]["managementApiUrl"]
    deployment = installation.ask("deployment", "status", "demo-worker")["deployment"]["id"]
    refuses = Refusals(installation)
    installation.cli("api", "use", "local")
    refuses("credentials delete demo-aws", "anycloud cluster delete")
    refuses("cluster create other --credentials demo-aws --region us-east-1 --vm-type t3.large", "cluster delete demo")
    in_order = [
        f"`anycloud deployment delete {deployment}`",
        "`anycloud node-pool delete demo-pool`",
        "`anycloud cluster delete demo`",
    ]
    refuses("cluster delete demo", *in_order)
    installation.cli("api", "use", url)
    refuses("cluster delete demo", "`anycloud api use local`", "`anycloud cluster delete demo`")
    refuses("credentials delete demo-aws", "anycloud node-pool delete")
    refuses("node-pool delete demo-pool", f"anycloud deployment delete {deployment}")
    deleting = installation.cli("deployment", "delete", "demo-worker").stdout
    assert deleting.startswith(f"Deleting Deployment demo-worker ({deployment}).")
    until(lambda: deleted(installation.ask("deployment", "status", deployment)["deployment"]), 60, pause=0.5)
    installation.cli("api", "use", "local")
    refuses("cluster delete demo", *in_order[1:])
    installation.cli("api", "use", url)
    pool = installation.ask("node-pool", "delete", "demo-pool")["nodePool"]
    assert (pool["state"], pool["releasing"]) == ("terminated", True)
    until(lambda: not installation.ask("node-pool", "status", pool["id"])["nodePool"]["releasing"], 60, pause=0.5)
    assert installation.cli("credentials", "delete", "demo-aws").stdout == "Deleted credential demo-aws.\n"
    installation.cli("api", "use", "local")
    ended = installation.cli("cluster", "delete", "demo").stdout.splitlines()
    assert ended == ["terminated · releasing VM (still billing)", "terminated"]
    assert installation.cli("credentials", "delete", "demo-aws").stdout == "Deleted credential demo-aws.\n"


class Refusals:
    """Tries commands that must not work yet."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def __call__(self, command: str, *named: str) -> None:
        """Refused with one line that has all of `named`, in this order, and with nothing done."""
        done = self._installation.cli(*command.split(), code=1)
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert re.search(".*".join(map(re.escape, named)), done.stderr), f"{command}: {done.stderr}"


def deleted(deployment: dict[str, Any]) -> bool:
    return deployment["deletedAt"] is not None and not deployment["status"]["releasing"]


@pytest.mark.req("CL-097", "CL-099", "NP-002")
def test_after_the_deletes_nothing_is_left_in_the_cloud(installation: Installation) -> None:
    assert {machine["state"] for machine in installation.bought("machines")} == {"terminated"}
    assert installation.bought("networks") == []
    assert installation.bought("addresses") == []
    cluster = installation.ask("cluster", "list")["clusters"][0]
    assert (cluster["state"], cluster["releasing"]) == ("terminated", False)
    of_installation = {"supervisor", "sandbox", "nodeagent", "installer/envoy"}
    of_installation |= {f"installer/{name}" for name in ("cluster", "nodepool", "deployment", "release")}
    assert {process.name for process in installation.processes()} == of_installation


def test_the_last_stop_leaves_nothing_too(installation: Installation) -> None:
    installation.cli("api", "stop")
    assert installation.processes() == []
