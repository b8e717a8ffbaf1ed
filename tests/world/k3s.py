"""What the VMs of the tests download in place of K3s, put together from the parts that K3s is made of.

`k3s agent` trusts a server whose CA has the token's checksum, joins with the bootstrap token, imports the images that
lie ready for it, and runs containerd and the kubelet. `k3s server` runs a control plane (kine on SQLite, Kubernetes'
own programs, K3s's own helm-controller) and is then its own agent. `k3s kubectl` is the admin's. Configuration, files,
ports and tokens are K3s's. What it runs ends with it, containers don't.

Different from K3s: certificates come from a request that the controllers approve, and there is neither a tunnel nor an
overlay network; every Node translates the addresses of its Pods.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

PROGRAMS = Path("/opt/k3s")
CONFIG = Path("/etc/rancher/k3s/config.yaml")
KUBECONFIG = Path("/etc/rancher/k3s/k3s.yaml")
SERVER = Path("/var/lib/rancher/k3s/server")
AGENT = Path("/var/lib/rancher/k3s/agent")
SOCKET = "/run/k3s/containerd/containerd.sock"
PAUSE = "docker.io/rancher/mirrored-pause:3.6"
CTR = ["ctr", "--address", SOCKET, "--namespace", "k8s.io"]
API_PORT = 6443

children: list[subprocess.Popen[bytes]] = []


def main() -> None:
    if sys.argv[1:2] == ["kubectl"]:
        os.environ["KUBECONFIG"] = str(KUBECONFIG)
        os.execv(PROGRAMS / "kubectl", sys.argv[1:])
    if sys.argv[1:] not in (["agent"], ["server"]):
        sys.exit("this k3s only knows server, agent and kubectl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        config = read_config()
        agent = serve(config) if sys.argv[1] == "server" else config
        join(agent)
        if sys.argv[1] == "server":
            kubectl("label", "--overwrite", "node", config["node-name"], "node-role.kubernetes.io/control-plane=true")
        notify(b"READY=1")
        pid, status = os.wait()
        sys.exit(f"process {pid} ended with {status}")
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()


def start(command: list[str | Path], **more: Any) -> subprocess.Popen[bytes]:
    children.append(subprocess.Popen(command, **more))
    return children[-1]


def read_config() -> Json:
    config: Json = {}
    for path in (CONFIG, *sorted(CONFIG.with_name("config.yaml.d").glob("*.yaml"))):
        config |= yaml.safe_load(path.read_text())
    return config


def serve(config: Json) -> Json:
    """Starts the control plane; gives the configuration by which this machine joins it."""
    address = config["advertise-address"]
    plane = SERVER / "plane"
    if not (plane / "plane.json").exists():
        make_plane(plane, config, address)
    packed = {**os.environ, "PYTHONPATH": str(Path(sys.argv[0]).absolute())}
    to_api_server(address)
    process = start([sys.executable, "-m", "anycloud_control_plane", plane], stdout=subprocess.PIPE, env=packed)
    assert process.stdout is not None
    if process.stdout.readline() != b"serving\n":
        sys.exit("the control plane didn't start")
    private(KUBECONFIG, (plane / "admin.kubeconfig").read_text())
    ca = (SERVER / "tls/server-ca.crt").read_text()
    token = f"K10{hashlib.sha256(ca.encode()).hexdigest()}::{config['agent-token']}"
    return {**config, "server": f"https://{address}:{API_PORT}", "token": token}


def to_api_server(address: str) -> None:
    """Leads Pods from the Service `kubernetes` to the API server: the one work of kube-proxy."""
    rule = ["PREROUTING", "--destination", "10.43.0.1", "--protocol", "tcp", "--dport", "443"]
    rule += ["--jump", "DNAT", "--to-destination", f"{address}:{API_PORT}"]
    if subprocess.run(["iptables", "-t", "nat", "--check", *rule], capture_output=True, check=False).returncode:
        subprocess.run(["iptables", "-t", "nat", "--append", *rule], check=True)


def make_plane(plane: Path, config: Json, address: str) -> None:
    from anycloud_control_plane.certificates import Authority, key_pem

    authority = Authority("k3s-server-ca")
    for directory in (plane, SERVER / "tls"):
        directory.mkdir(mode=0o700, parents=True)
    private(plane / "ca.key", key_pem(authority.key))
    for path in (plane / "ca.crt", SERVER / "tls/server-ca.crt"):
        path.write_text(authority.pem)
    plan = {
        "host": address,
        "port": API_PORT,
        "store": "127.0.0.1:2379",
        "folders": [str(PROGRAMS)],
        "tokens": {"admin": secrets.token_hex(32), "node": config["agent-token"]},
        "job_image": config["helm-job-image"],
        # Helm's Jobs ask for it at 127.0.0.1.
        "more": {"kube-apiserver": ["--bind-address=0.0.0.0"]},
    }
    private(plane / "plane.json", json.dumps(plan))


def kubectl(*words: str) -> None:
    command: list[str | Path] = [PROGRAMS / "kubectl", f"--kubeconfig={KUBECONFIG}", *words]
    wait_until(lambda: subprocess.run(command, check=False).returncode == 0)


def join(config: Json) -> None:
    """Returns once this machine has its certificate."""
    for directory in (AGENT, Path(SOCKET).parent, Path("/etc/cni/net.d")):
        directory.mkdir(parents=True, exist_ok=True)
    server = urllib.parse.urlsplit(config["server"])
    assert server.hostname and server.port, config["server"]
    digest, _, token = config["token"].removeprefix("K10").partition("::")
    authority = trusted_authority(server.hostname, server.port, digest)
    write_files(config, authority, token)
    start(["containerd", "--config", AGENT / "containerd.toml", "--address", SOCKET])
    import_images()
    start(kubelet_command(config))
    wait_until((AGENT / "kubelet" / "kubelet-client-current.pem").exists)


def trusted_authority(host: str, port: int, digest: str) -> str:
    """The CA that the server shows, if it is the one that the token names."""
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-showcerts"]
    while True:
        shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
        for part in shown.split("-----BEGIN CERTIFICATE-----")[1:]:
            body = part.partition("-----END")[0]
            pem = f"-----BEGIN CERTIFICATE-----\n{body.strip()}\n-----END CERTIFICATE-----\n"
            if hashlib.sha256(pem.encode()).hexdigest() == digest:
                return pem
        print(f"no CA with the token's checksum at {host}:{port}", flush=True)
        time.sleep(5)


def write_files(config: Json, authority: str, token: str) -> None:
    (AGENT / "server-ca.crt").write_text(authority)
    cluster = {"server": config["server"], "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    bootstrap = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": {"token": token}}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    private(AGENT / "bootstrap.kubeconfig", json.dumps(bootstrap))
    (AGENT / "containerd.toml").write_text(CONTAINERD)
    Path("/etc/cni/net.d/10-pods.conflist").write_text(json.dumps(network()))
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(AGENT / "server-ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
        "registerWithTaints": [taint(text) for text in config.get("node-taint", [])],
        "clusterDomain": "cluster.local",
        "rotateCertificates": True,
        "localStorageCapacityIsolation": False,
        "imageGCHighThresholdPercent": 100,
        # For speed only.
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "5s",
        "volumeStatsAggPeriod": "-1s",
        "shutdownGracePeriod": "0s",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"},
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
    }
    (AGENT / "kubelet.json").write_text(json.dumps(kubelet))


CONTAINERD = f"""
version = 2
root = "{AGENT}/containerd"
state = "/run/k3s/containerd/state"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
"""


def network() -> Json:
    number = own_address().rpartition(".")[2]
    ranges = [[{"subnet": f"10.42.{number}.0/24"}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def taint(text: str) -> dict[str, str]:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def import_images() -> None:
    """As K3s takes what lies in agent/images. `names` there gives images the further names that Pods ask for."""
    wait_until(lambda: subprocess.run([*CTR, "version"], capture_output=True, check=False).returncode == 0)
    for archive in sorted((AGENT / "images").glob("*.tar")):
        done = AGENT / f"{archive.name}.imported"
        if not done.exists():
            subprocess.run([*CTR, "images", "import", archive], check=True, stdout=subprocess.DEVNULL)
            done.touch()
    names = AGENT / "names"
    for line in names.read_text().splitlines() if names.exists() else ():
        subprocess.run([*CTR, "images", "tag", "--force", *line.split()], check=True, stdout=subprocess.DEVNULL)


def kubelet_command(config: Json) -> list[str | Path]:
    return [
        PROGRAMS / "kubelet",
        f"--config={AGENT / 'kubelet.json'}",
        f"--bootstrap-kubeconfig={AGENT / 'bootstrap.kubeconfig'}",
        f"--kubeconfig={AGENT / 'kubelet.kubeconfig'}",
        f"--cert-dir={AGENT / 'kubelet'}",
        f"--hostname-override={config['node-name']}",
        f"--node-labels={','.join(config.get('node-label', []))}",
        f"--node-ip={own_address()}",
    ]


def private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def wait_until(done: Callable[[], bool]) -> None:
    while not done():
        if any(child.poll() is not None for child in children):
            sys.exit("a part of K3s ended")
        time.sleep(0.1)


def notify(message: bytes) -> None:
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.connect("\0" + address[1:] if address[0] == "@" else address)
            line.send(message)


if __name__ == "__main__":
    main()
