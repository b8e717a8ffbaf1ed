"""How long the world of real VMs takes: a VM, its Node, a Pod and its end; and what a Node costs in memory.

The same on the sandbox is in installation.py.
"""

from __future__ import annotations

import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.world.assets import location
from tests.world.vm import VM, Network, machine, until
from tests.world.world import Json, World

ROUNDS = 5
PROGRAMS = ("kubelet", "containerd", "k3s", "systemd", "sshd")
IDLE: Json = {"command": ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]}


def main() -> None:
    if reason := location.absent():
        print(f"Left out: {reason}.")
        return
    with Network() as network:
        show("VM: power to sshd", [vm_start(network, number) for number in range(ROUNDS)])
        began = time.monotonic()
        with World(network) as world:
            show("API server ready", [world.seconds["control plane"]])
            show("API serves", [world.seconds["API"]])
            show("world ready", [time.monotonic() - began])
            pool_and_pods(world)


def pool_and_pods(world: World) -> None:
    began = time.monotonic()
    world.ask_for_pool("bench")
    pool = world.wait_for_pool("bench")
    show("pool: create to Node Ready", [time.monotonic() - began])
    ready, noticed = [], []
    for number in range(ROUNDS):
        began = time.monotonic()
        made = world.deploy(f"bench-{number}", pool["id"], **IDLE)
        ready.append(time.monotonic() - began)
        noticed.append(pod_gone(world, made))
        world.remove(made["id"])
    show("Deployment: create to ready", ready)
    show("Pod: gone to noticed", noticed)
    vm = world.vm(world.node(pool))
    for program, mebibytes in memory(vm).items():
        print(f"{'memory of ' + program:34} {mebibytes:7.0f} MiB")


def vm_start(network: Network, number: int) -> float:
    began = time.monotonic()
    with machine(network, f"bench-{number}", b"#cloud-config\n") as vm:
        until(lambda: listens(vm), "sshd", 0.02)
        return time.monotonic() - began


def listens(vm: VM) -> bool:
    try:
        with socket.create_connection((vm.address, 22), 1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def pod_gone(world: World, deployment: Json) -> float:
    """From the end of a Pod to the status that says so."""
    pod = world.pod(deployment)
    about = pod["metadata"]
    path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
    world.plane.call("DELETE", path, {"gracePeriodSeconds": 0})
    began = time.monotonic()
    until(lambda: not world.deployment(deployment["id"])["status"]["ready"], "the status", 0.01)
    return time.monotonic() - began


def memory(vm: VM) -> dict[str, float]:
    """Resident memory by program."""
    script = "for p in /proc/[0-9]*; do grep -hE '^(Name|VmRSS)' $p/status 2>/dev/null; done"
    lines = vm.run("sh", "-c", script).splitlines()
    found: dict[str, float] = {}
    name = ""
    for line in lines:
        key, _, value = line.partition(":")
        if key == "Name":
            name = value.strip()
        elif key == "VmRSS" and name in PROGRAMS:
            found[name] = found.get(name, 0.0) + int(value.split()[0]) / 1024
    return found


def show(what: str, seconds: list[float]) -> None:
    spread = f"   {min(seconds):.2f} to {max(seconds):.2f} in {len(seconds)}" if len(seconds) > 1 else ""
    print(f"{what:34} {statistics.median(seconds):7.2f} s{spread}", flush=True)


if __name__ == "__main__":
    main()
