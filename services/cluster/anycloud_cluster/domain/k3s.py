"""The management VM from its first boot to its K3s server: user data, commands, configuration, install script.

The commands are exact texts without any secret: what is secret goes through stdin.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from anycloud_common.kube import names

from anycloud_cluster.domain.keys import Keys
from anycloud_cluster.domain.pins import k3s_url

USER: Final = "anycloud"
ARCHITECTURE: Final = "uname -m"
WRITE_CONFIG: Final = (
    "sudo sh -c 'umask 077; mkdir -p /etc/rancher/k3s; cat > /etc/rancher/k3s/config.yaml.new"
    " && mv /etc/rancher/k3s/config.yaml.new /etc/rancher/k3s/config.yaml'"
)
INSTALL: Final = "sudo sh -s"
IS_ACTIVE: Final = "sudo systemctl is-active k3s"
APPLY: Final = "sudo k3s kubectl apply -f -"
SERVER_CA: Final = "sudo cat /var/lib/rancher/k3s/server/tls/server-ca.crt"
API_PORT: Final = 6443

# Public components that this cluster doesn't run.
DISABLED: Final = ("traefik", "servicelb", "metrics-server", "local-storage")

INSTALLER: Final = "anycloud-installer"
INSTALLER_TOKEN: Final = f"{INSTALLER}-token"
GET_TOKEN: Final = f"sudo k3s kubectl get --raw /api/v1/namespaces/{names.NAMESPACE_SYSTEM}/secrets/{INSTALLER_TOKEN}"


def user_data(keys: Keys) -> bytes:
    """Cloud-config with the machine's host key and the one key that may log in; nothing else is on the machine."""
    config = {
        "ssh_pwauth": False,
        "disable_root": True,
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": keys["hostPrivate"], "ed25519_public": keys["hostPublic"]},
        "users": [
            {
                "name": USER,
                "shell": "/bin/bash",
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "lock_passwd": True,
                "ssh_authorized_keys": [keys["userPublic"]],
            }
        ],
    }
    return b"#cloud-config\n" + yaml.safe_dump(config, sort_keys=False).encode()


def server_config(node_name: str, address: str, keys: Keys, helm_job_image: str) -> str:
    """K3s's server configuration. It holds the join tokens: stdin only."""
    config: dict[str, Any] = {
        "node-name": node_name,
        "token": keys["token"],
        "agent-token": keys["agentToken"],
        "tls-san": [address],
        "node-external-ip": address,
        "advertise-address": address,
        "flannel-external-ip": True,
        "node-label": [f"{names.LABEL_CLUSTER_MANAGEMENT}=true"],
        "node-taint": [f"{names.TAINT_MANAGEMENT}=true:{names.NO_SCHEDULE}"],
        "disable": list(DISABLED),
        "helm-job-image": helm_job_image,
        "secrets-encryption": True,
        "write-kubeconfig-mode": "0600",
    }
    return yaml.safe_dump(config, sort_keys=False)


CHECKSUM_FAILED: Final = 65  # exit code of the script below


def install_script(version: str, sha256: str) -> str:
    """Downloads that very release, checks it, and starts it as a service that survives reboots."""
    return _INSTALL.replace("@version@", version).replace("@sha256@", sha256).replace("@url@", k3s_url(version))


_INSTALL: Final = """\
#!/bin/sh
# k3s-version: @version@
# k3s-sha256: @sha256@
set -eu
umask 022
binary=/usr/local/bin/k3s
if ! echo "@sha256@  $binary" | sha256sum --check --status 2>/dev/null; then
  curl --fail --silent --show-error --location --retry 5 --output "$binary.new" "@url@"
  echo "@sha256@  $binary.new" | sha256sum --check --status || {
    rm -f "$binary.new"
    echo "the SHA-256 of the K3s binary is not @sha256@" >&2
    exit 65
  }
  chmod 755 "$binary.new"
  mv "$binary.new" "$binary"
fi
cat > /etc/systemd/system/k3s.service <<'UNIT'
[Unit]
Description=Kubernetes server of an Anycloud cluster
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
Delegate=yes
KillMode=process
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s server

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --quiet k3s
systemctl start --no-block k3s
"""


def installer_account() -> str:
    """The installer's ServiceAccount with its authority and its lasting token, as manifests without secrets."""
    namespace = names.NAMESPACE_SYSTEM
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": INSTALLER, "namespace": namespace, "labels": labels},
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": INSTALLER, "labels": labels},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": INSTALLER, "namespace": namespace}],
    }
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": INSTALLER_TOKEN,
            "namespace": namespace,
            "labels": labels,
            "annotations": {"kubernetes.io/service-account.name": INSTALLER},
        },
    }
    return yaml.safe_dump_all([account, binding, token], sort_keys=False)
