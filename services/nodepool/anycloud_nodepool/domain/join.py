"""How a VM becomes a Node: its user data, and the bootstrap token that it joins with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from anycloud_common.kube import names

from anycloud_nodepool.domain import pins
from anycloud_nodepool.domain.model import Pool

TOKEN_MS: Final = 30 * 60_000
RENEW_MS: Final = 15 * 60_000  # a token with less than this left is renewed while its VM still has to join

# How a VM learns its own public address from its cloud's metadata.
_PUBLIC_ADDRESS: Final[Mapping[str, str]] = {
    "AWS": (
        "key=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' $at/latest/api/token) &&\n"
        '  curl -sf -m 5 -H "X-aws-ec2-metadata-token: $key" $at/latest/meta-data/public-ipv4'
    ),
    "GCP": (
        "curl -sf -m 5 -H 'Metadata-Flavor: Google' "
        "$at/computeMetadata/v1/instance/network-interfaces/0/access-configs/0/external-ip"
    ),
    "Azure": (
        "curl -sf -m 5 -H 'Metadata: true' \"$at/metadata/instance/network/interface/0/ipv4/ipAddress/0/"
        'publicIpAddress?api-version=2021-02-01&format=text"'
    ),
}

_UNIT: Final = """\
[Unit]
Description=K3s agent
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s agent

[Install]
WantedBy=multi-user.target
"""

_SCRIPT: Final = """\
#!/bin/sh
# k3s-version: {version}
# k3s-sha256: {sha256}
set -eu
if [ "$(uname -m)" != x86_64 ]; then
  echo "this VM is $(uname -m); node pools need x86_64" >&2
  exit 1
fi
at=http://169.254.169.254
public_address() {{
  {public_address}
}}
until address=$(public_address) && [ -n "$address" ]; do sleep 2; done
mkdir -p /etc/rancher/k3s/config.yaml.d
printf 'node-external-ip: "%s"\\n' "$address" > /etc/rancher/k3s/config.yaml.d/address.yaml
new=/usr/local/bin/k3s.new
until curl -sfL --retry 3 -o "$new" '{url}'; do sleep 5; done
if ! echo "{sha256}  $new" | sha256sum -c - >/dev/null; then
  rm -f "$new"
  echo 'the download of K3s is not the pinned one' >&2
  exit 1
fi
chmod 0755 "$new"
mv "$new" /usr/local/bin/k3s
systemctl daemon-reload
systemctl enable --now k3s-agent
"""


@dataclass(frozen=True)
class Server:
    """Where the VM joins. `ca` is the server CA in PEM, exactly as the server gives it out."""

    cluster_id: str
    endpoint: str
    ca: str


@dataclass(frozen=True)
class Token:
    """A bootstrap token of Kubernetes."""

    id: str
    secret: str = field(repr=False)

    def pinned(self, ca: str) -> str:
        """In K3s's form that works against the server with this CA only."""
        return f"K10{hashlib.sha256(ca.encode()).hexdigest()}::{self.id}.{self.secret}"

    @property
    def secret_name(self) -> str:
        return secret_name(self.id)


def secret_name(token_id: str) -> str:
    """Name of the Secret in kube-system that makes a bootstrap token valid."""
    return f"bootstrap-token-{token_id}"


def password_secret_name(node: str) -> str:
    """Name of the Secret in kube-system by which K3s keeps a Node's name for its VM."""
    return f"{node}.node-password.k3s"


def token_owner(pool_id: str, attempt_id: str) -> dict[str, str]:
    """Labels of an attempt's bootstrap token."""
    return {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_NODE_POOL: pool_id,
        names.LABEL_ATTEMPT: attempt_id,
    }


def token_secret(token: Token, pool_id: str, attempt_id: str, expires_at: int) -> dict[str, Any]:
    """The Secret that makes the token valid until then (epoch ms)."""
    expiration = datetime.fromtimestamp(expires_at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {
            "name": token.secret_name,
            "namespace": names.NAMESPACE_SYSTEM,
            "labels": token_owner(pool_id, attempt_id),
            "annotations": {names.ANNOTATION_INTENT: attempt_id},
        },
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": token.id,
            "token-secret": token.secret,
            "expiration": expiration,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": "system:bootstrappers:k3s:default-node-token",
            "description": f"Anycloud node pool {pool_id}, {attempt_id}",
        },
    }


def user_data(pool: Pool, server: Server, attempt_id: str, node_name: str, token: Token) -> bytes:
    """cloud-config of one VM. JSON, as every JSON is YAML. There is no SSH key and no credential of a cloud in it."""
    agent = _agent(pool, server, attempt_id, node_name, token)
    config = {
        "write_files": [
            _file("/etc/rancher/k3s/config.yaml", "0600", json.dumps(agent)),
            _file("/etc/systemd/system/k3s-agent.service", "0644", _UNIT),
            _file("/usr/local/sbin/anycloud-join", "0700", install_script(pool.provider)),
        ],
        "runcmd": [["/usr/local/sbin/anycloud-join"]],
    }
    return f"#cloud-config\n{json.dumps(config)}\n".encode()


def install_script(provider: str) -> str:
    """Downloads the pinned agent and starts it, on x86_64 only."""
    return _SCRIPT.format(
        version=pins.K3S_VERSION,
        sha256=pins.K3S_SHA256,
        url=pins.K3S_URL,
        public_address=_PUBLIC_ADDRESS[provider],
    )


def labels(pool: Pool, cluster_id: str, attempt_id: str) -> dict[str, str]:
    """Labels of an attempt's Node."""
    return names.pool_node_labels(cluster_id, pool.id, pool.provider, attempt_id, nvidia=pool.nvidia)


def _agent(pool: Pool, server: Server, attempt_id: str, node_name: str, token: Token) -> dict[str, Any]:
    taint = names.pool_taint(pool.id)
    node_labels = labels(pool, server.cluster_id, attempt_id)
    return {
        "server": server.endpoint,
        "token": token.pinned(server.ca),
        "node-name": node_name,
        "node-label": [f"{key}={value}" for key, value in node_labels.items()],
        "node-taint": [f"{taint['key']}={taint['value']}:{taint['effect']}"],
    }


def _file(path: str, permissions: str, content: str) -> dict[str, str]:
    return {"path": path, "permissions": permissions, "content": content}
