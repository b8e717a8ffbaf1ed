"""Breaks one rule of the sandbox's API server after the other, and sees that the shared suite catches each.

`python -m tests.kube.mutations [NAME…]`. Each rule is broken in a copy of the sandbox; against it runs the suite
that runs against the real server too, up to its first failure. A rule that nobody misses is a test that is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "sandbox"
SUITE = ("test_client.py", "test_identity.py", "test_controllers.py", "test_watches.py")


class Mutation(NamedTuple):
    """`new` in the place of the one `old` in a file of the sandbox's `kube` folder; `also` is another file, old and new
    where a rule is kept in two places."""

    name: str
    file: str
    old: str
    new: str
    also: tuple[str, str, str] | None = None


MUTATIONS = (
    Mutation("a delete ends whatever has the name", "store.py", "if wanted != meta[name]:", "if False:"),
    Mutation(
        "a write needs neither version nor UID",
        "store.py",
        'for name in ("resourceVersion", "uid"):',
        "for name in ():",
    ),
    Mutation("a watch tells in another order", "api.py", 'b"".join(lines)', 'b"".join(lines[::-1])'),
    Mutation("a version is never too old", "api.py", "if since and not oldest - 1 <= since <= store.version:", "if 0:"),
    Mutation(
        "dependents outlive their owner",
        "store.py",
        'for child in self._where(lambda item: obj["metadata"]["uid"] in owners_of(item)):',
        "for child in ():",
    ),
    Mutation("taints keep nobody away", "controllers.py", 'if taint["effect"] != "PreferNoSchedule"]', "if False]"),
    Mutation(
        "a token is good for every audience",
        "auth.py",
        "or API_AUDIENCES if name in audiences]",
        "or API_AUDIENCES]",
    ),
    Mutation(
        "a token outlives the Pod that it is bound to",
        "auth.py",
        'if found is None or found["metadata"]["uid"] != bound[kind]["uid"]:',
        "if found is None:",
    ),
    Mutation(
        "a label selector takes all",
        "store.py",
        'if hit == (mark in ("!=", "notin") or key.startswith("!")):',
        "if False:",
    ),
    Mutation(
        "a bootstrap token never expires",
        "auth.py",
        'data.get("usage-bootstrap-authentication") == b"true" and not late',
        'data.get("usage-bootstrap-authentication") == b"true"',
        also=("controllers.py", "if ends and seconds_of(", "if False and seconds_of("),
    ),
    Mutation(
        "a Namespace that goes takes new objects",
        "store.py",
        'if namespace and "deletionTimestamp" in self.get(("namespaces", "", namespace))["metadata"]:',
        "if False:",
    ),
    Mutation(
        "a Pod goes without its kubelet",
        "store.py",
        'seconds = obj["spec"]["terminationGracePeriodSeconds"] if grace is None else grace',
        "seconds = 0",
    ),
    Mutation("an apply brings back what was deleted", "store.py", 'elif body["metadata"].get("uid"):', "elif False:"),
    Mutation(
        "what an apply leaves out stays",
        "store.py",
        "forgotten = left_out(self._applied[key].get(manager, {}), body)",
        "forgotten: Json = {}",
    ),
    Mutation("what never changes may be changed", "store.py", "if dig(old, path) != dig(obj, path):", "if False:"),
)


def apply(mutation: Mutation, sandbox: Path) -> None:
    """Breaks the rule in the copy below `sandbox`. ValueError when the text isn't there once."""
    edits = [(mutation.file, mutation.old, mutation.new), *([mutation.also] if mutation.also else [])]
    for name, old, new in edits:
        file = sandbox / "anycloud_sandbox" / "kube" / name
        text = file.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{name} has {old!r} {text.count(old)} times")
        file.write_text(text.replace(old, new))


def caught_by(mutation: Mutation | None) -> str:
    """The first test that fails on a sandbox without the rule, or with all of them; empty when none does."""
    with tempfile.TemporaryDirectory() as scratch:
        sandbox = Path(scratch) / "sandbox"
        shutil.copytree(SANDBOX, sandbox, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            apply(mutation, sandbox)
        path = os.pathsep.join([str(sandbox), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        suite = [str(ROOT / "tests" / "kube" / name) for name in SUITE]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "-k", "sandbox", *suite]
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode not in (0, 1) or (done.returncode == 1 and not failed):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return failed[0].partition("::")[2].partition(" - ")[0] if failed else ""


def main(names: list[str]) -> int:
    if test := caught_by(None):
        print(f"{test} fails although no rule is broken")
        return 1
    missed = 0
    for mutation in MUTATIONS:
        if names and mutation.name not in names:
            continue
        began = time.monotonic()
        test = caught_by(mutation)
        missed += not test
        print(f"{mutation.name:45} {test or 'NOBODY NOTICED':75} {time.monotonic() - began:4.0f} s", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
