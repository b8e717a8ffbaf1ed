"""What a control plane reads from its directory: keys, certificates, users, kubeconfigs. Written once."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from anycloud_control_plane.certificates import Authority, key_pem, new_key, public_pem

# Who signs in with a token of his own, so that the audit log tells the callers apart.
USERS = {
    "admin": ("system:admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "helm": ("system:k3s-helm-controller", "system:masters"),
    "node": ("node", "system:bootstrappers"),  # the server's own machine, by K3s's agent token
}

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def write(at: Path, endpoint: str, hosts: Sequence[str], authority: Authority, tokens: Mapping[str, str]) -> None:
    accounts = new_key()
    users = (f'{tokens[key]},{user},{user},"{group}"' for key, (user, group) in USERS.items())
    files = {
        "ca.crt": authority.pem,
        "ca.key": key_pem(authority.key),
        # With the CA, so that machines that join see what their token's checksum is of.
        "server.pem": authority.issue("kube-apiserver", hosts=hosts) + authority.pem,
        "kubelet-client.pem": authority.issue("kube-apiserver"),
        "accounts.key": key_pem(accounts),
        "accounts.pub": public_pem(accounts),
        "tokens.csv": "\n".join(users) + "\n",
        "audit-policy.yaml": json.dumps(_AUDIT_POLICY),
    }
    files |= {f"{key}.kubeconfig": kubeconfig(endpoint, authority.pem, tokens[key]) for key in USERS}
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        new = at / f".{name}.new"
        new.touch(0o600)
        new.write_text(text)
        new.rename(at / name)


def kubeconfig(endpoint: str, ca: str, token: str) -> str:
    cluster = {"server": endpoint, "certificate-authority-data": base64.b64encode(ca.encode()).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": {"token": token}}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    return yaml.safe_dump(document)
