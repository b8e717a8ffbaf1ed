"""From nothing to twenty finished Jobs, with the commands that a user would type. `make demo` runs it.

The world is the sandbox: machines, Kubernetes and GitHub are stood in for on this machine. What runs in it is the
product itself; the Jobs are submitted and executed by the published Python client, unmodified. With
`--kube-assets DIR` or ANYCLOUD_KUBE_ASSETS its Kubernetes is the real control plane, where Helm installs the chart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SDK_PYTHON = ROOT / ".demo" / "sdk" / "bin" / "python"
JOBS = 20

CLUSTER, CREDENTIAL, POOL, DEPLOYMENT = "demo", "demo-aws", "demo-pool", "demo-worker"
IMAGE = "anycloud-demo/worker:1"
# The sandbox's cloud believes any key; the account is what stands before the dot.
KEYS = {"AWS_ACCESS_KEY_ID": "111122223333.demo", "AWS_SECRET_ACCESS_KEY": "sandbox"}

FINISHED = """SELECT id, previous_execution_id AS execution_id, state, time(created_at / 1e3, 'unixepoch') AS submitted,
 time(claimed_at / 1e3, 'unixepoch') AS claimed, time(completed_at / 1e3, 'unixepoch') AS completed,
 completed_at - claimed_at AS ms FROM deployment_job_history ORDER BY created_at DESC LIMIT {count}""".replace("\n", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kube-assets", metavar="DIR", default=os.environ.get("ANYCLOUD_KUBE_ASSETS"))
    assets = parser.parse_args().kube_assets
    started = time.monotonic()
    say("1. An API of your own")
    run("api", "start", "--sandbox", *(["--kube-assets", assets] if assets else []))
    run("api", "use", "local")
    register_worker_image()

    say("2. A cluster: one management VM, K3s on it, the API on that")
    save_credential()
    if state("cluster", "cluster", CLUSTER) != "running":
        run("cluster", "create", CLUSTER, "--credentials", CREDENTIAL, "--region", "us-east-1", "--vm-type", "t3.large")
    run("cluster", "status", CLUSTER, "--watch", "--interval", "1")
    run("api", "use", ask("cluster", "status", CLUSTER)["cluster"]["managementApiUrl"])

    say("3. A node pool: two VMs that join the cluster")
    save_credential()
    if state("node-pool", "nodePool", POOL) != "running":
        place = ["--credentials", CREDENTIAL, "--region", "us-east-1", "--vm-type", "m5.large"]
        run("node-pool", "create", POOL, *place, "--min-vms", "2", "--max-vms", "2", "--wait")
    run("node-pool", "status", POOL)

    say("4. A Deployment: a container that keeps running and takes Jobs")
    if state("deployment", "deployment", DEPLOYMENT) is None:
        run("deployment", "create", DEPLOYMENT, IMAGE, "--node-pool", POOL, "--wait")
    run("deployment", "status", DEPLOYMENT)

    say(f"5. {JOBS} Jobs, sent by the published Python client")
    jobs = submit()
    run("wait", *jobs)

    say("6. What became of them")
    run("db", "query", FINISHED.format(count=len(jobs)))
    show_worker_lines(jobs)

    say(f"Done in {time.monotonic() - started:.0f} s. To look around:")
    print(f"   export ANYCLOUD_DIR={os.environ['ANYCLOUD_DIR']} PATH={BIN}:$PATH")
    print(f"   anycloud api status\n   anycloud deployment status {DEPLOYMENT} --verbose")
    print(f"   anycloud job --deployment {DEPLOYMENT}\n   anycloud logs {DEPLOYMENT} --follow")
    print("To end everything that this started:\n   make stop")
    return 0


def say(headline: str) -> None:
    print(f"\n\033[1m{headline}\033[0m" if sys.stdout.isatty() else f"\n{headline}", flush=True)


def anycloud(*words: str) -> list[str]:
    return [str(BIN / "anycloud"), *words]


def run(*words: str, env: dict[str, str] | None = None) -> None:
    """Types a command, so that it is seen with everything that it prints."""
    shown = words if len(words) < 20 else (*words[:3], f"… {len(words) - 4} more …", words[-1])
    print("$ anycloud", *(f'"{word}"' if " " in word and "…" not in word else word for word in shown), flush=True)
    done = subprocess.run(anycloud(*words), env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        sys.exit(f"The demo stops here: `anycloud {words[0]}` ended with {done.returncode}.")


def ask(*words: str) -> Any:
    """The JSON answer of a command, None when it was refused."""
    done = subprocess.run(anycloud(*words, "--json"), capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def state(group: str, key: str, name: str) -> str | None:
    """The state of something that an earlier run may have left, None when there is no such thing."""
    answer = ask(group, "status", name)
    if answer is None:
        return None
    found = answer[key]
    return str(found["state"] if "state" in found else found["status"]["state"])


def save_credential() -> None:
    known = [credential["name"] for credential in ask("credentials", "list") or []]
    if CREDENTIAL not in known:
        run("credentials", "new", CREDENTIAL, "--provider", "aws", env=KEYS)


def register_worker_image() -> None:
    """What pushing the image is elsewhere: tells the sandbox's registry what the name stands for."""
    manifest = {
        "accelerator": "none",
        "env": {"PYTHONUNBUFFERED": "1"},
        "command": [str(SDK_PYTHON), str(ROOT / "examples" / "worker" / "worker.py")],
        "labels": {},
    }
    body = json.dumps({"reference": IMAGE, "directory": str(ROOT / "examples" / "worker"), "manifest": manifest})
    url = ask("api", "status")["local"]["sandboxUrl"] + "/registry/images"
    request = urllib.request.Request(url, body.encode(), {"content-type": "application/json"})  # noqa: S310  (loopback)
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310


def submit() -> list[str]:
    script = str(ROOT / "examples" / "demo" / "submit.py")
    print(f"$ python examples/demo/submit.py {DEPLOYMENT} {JOBS}", flush=True)
    command = [str(SDK_PYTHON), script, DEPLOYMENT, str(JOBS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    jobs = done.stdout.split()
    print(f"{len(jobs)} Jobs admitted: {jobs[0]} … {jobs[-1]}", flush=True)
    return jobs


def show_worker_lines(jobs: list[str]) -> None:
    print(f"$ anycloud logs {DEPLOYMENT}", flush=True)
    done = subprocess.run(anycloud("logs", DEPLOYMENT), capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if any(job in line for job in jobs)]
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
