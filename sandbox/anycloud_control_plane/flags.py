"""The programs' flags: what K3s sets, as far as it shows."""

from __future__ import annotations

from pathlib import Path

SERVICE_ADDRESS = "10.43.0.1"  # of the Service `kubernetes`
ISSUER = "https://kubernetes.default.svc.cluster.local"


def etcd(at: Path, address: str) -> list[str]:
    url = f"http://{address}"
    return [
        f"--data-dir={at / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://{address.partition(':')[0]}:0",
    ]


def kine(at: Path, address: str) -> list[str]:
    database = f"sqlite://{at}/state.db?_journal=WAL&cache=shared&_busy_timeout=30000"
    return [f"--endpoint={database}", f"--listen-address=tcp://{address}", "--metrics-bind-address=0"]


def api_server(at: Path, host: str, port: int, store: str, audit_log: Path | None) -> list[str]:
    audit = [f"--audit-policy-file={at / 'audit-policy.yaml'}", f"--audit-log-path={audit_log}"]
    return [
        f"--etcd-servers=http://{store}",
        f"--bind-address={host}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # it would refuse a loopback address
        f"--tls-cert-file={at / 'server.pem'}",
        f"--tls-private-key-file={at / 'server.pem'}",
        f"--client-ca-file={at / 'ca.crt'}",
        f"--token-auth-file={at / 'tokens.csv'}",
        "--enable-bootstrap-token-auth",
        "--anonymous-auth=false",
        f"--service-account-issuer={ISSUER}",
        f"--api-audiences={ISSUER},k3s",
        f"--service-account-key-file={at / 'accounts.pub'}",
        f"--service-account-signing-key-file={at / 'accounts.key'}",
        "--service-cluster-ip-range=10.43.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--kubelet-client-certificate={at / 'kubelet-client.pem'}",
        f"--kubelet-client-key={at / 'kubelet-client.pem'}",
        "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
        "--profiling=false",
        *(audit if audit_log else []),
    ]


_SHARED = ["--leader-elect=false", "--secure-port=0", "--profiling=false"]


def controllers(at: Path) -> list[str]:
    return [
        f"--kubeconfig={at / 'controllers.kubeconfig'}",
        "--controllers=*,tokencleaner,-service,-route,-cloud-node-lifecycle",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={at / 'accounts.key'}",
        f"--root-ca-file={at / 'ca.crt'}",
        f"--cluster-signing-cert-file={at / 'ca.crt'}",
        f"--cluster-signing-key-file={at / 'ca.key'}",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.42.0.0/16",
        # For speed only.
        "--pvclaimbinder-sync-period=2s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *_SHARED,
    ]


def scheduler(at: Path) -> list[str]:
    return [f"--kubeconfig={at / 'scheduler.kubeconfig'}", *_SHARED]


def helm_controller(at: Path, job_image: str) -> list[str]:
    return [f"--kubeconfig={at / 'helm.kubeconfig'}", f"--default-job-image={job_image}"]
