"""The Kubernetes objects of a Deployment, word by word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from anycloud_deployment.domain import manifest
from anycloud_deployment.domain.manifest import Place
from anycloud_deployment.domain.model import DockerOptions, Probe, Resources, Revision, Spec

PLACE = Place("dep-abc", "anycloud-node-pool-np-1-0123456789", "np-1", "http://127.0.0.2:7000")
SMALL = Resources(0, 100, False, 134_217_728, False)


def revision(resources: Resources = SMALL, generation: int = 3, **spec: Any) -> Revision:
    return Revision(generation, Spec(**{"image": "acme/model:v3", **spec}), resources, "adm-1", 0)


def pod_spec(found: Revision) -> dict[str, Any]:
    spec: dict[str, Any] = manifest.deployment(PLACE, found)["spec"]["template"]["spec"]
    return spec


def container(found: Revision) -> dict[str, Any]:
    [only] = pod_spec(found)["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.req("DP-053", "DP-055", "DP-056", "DP-060", "DP-014", "DP-015", "SC-008", "DP-001")
def test_the_smallest_deployment_is_this() -> None:
    labels = {"app.kubernetes.io/managed-by": "anycloud", "anycloud.sh/deployment": "dep-abc"}
    assert manifest.deployment(PLACE, revision()) == {
        "metadata": {
            "name": "dep-abc",
            "namespace": "anycloud-node-pool-np-1-0123456789",
            "labels": labels,
            "annotations": {"anycloud.sh/intent": "dep-abc/Deployment"},
        },
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {"anycloud.sh/deployment": "dep-abc"}},
            "template": {
                "metadata": {"labels": {**labels, "anycloud.sh/revision": "3"}},
                "spec": {
                    "nodeSelector": {"anycloud.sh/node-pool": "np-1"},
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchExpressions": [
                                            {"key": "anycloud.sh/node-pool", "operator": "In", "values": ["np-1"]}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                    "tolerations": [
                        {
                            "key": "anycloud.sh/node-pool",
                            "operator": "Equal",
                            "value": "np-1",
                            "effect": "NoSchedule",
                        }
                    ],
                    "serviceAccountName": "dep-abc",
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "dnsPolicy": "Default",
                    "restartPolicy": "Always",
                    "containers": [
                        {
                            "name": "app",
                            "image": "acme/model:v3",
                            "env": [
                                {"name": "ANYCLOUD_API_URL", "value": "http://127.0.0.2:7000"},
                                {"name": "ANYCLOUD_DEPLOYMENT_ID", "value": "dep-abc"},
                                {
                                    "name": "ANYCLOUD_WORKLOAD_TOKEN_FILE",
                                    "value": "/var/run/secrets/anycloud.sh/token",
                                },
                            ],
                            "envFrom": [{"secretRef": {"name": "dep-abc"}}],
                            "resources": {"requests": {"cpu": "100m", "memory": "134217728"}},
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "seccompProfile": {"type": "RuntimeDefault"},
                            },
                            "volumeMounts": [
                                {"name": "token", "mountPath": "/var/run/secrets/anycloud.sh", "readOnly": True}
                            ],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }
                    ],
                    "volumes": [
                        {
                            "name": "token",
                            "projected": {
                                "sources": [
                                    {
                                        "serviceAccountToken": {
                                            "audience": "anycloud.sh/workload",
                                            "expirationSeconds": 3600,
                                            "path": "token",
                                        }
                                    }
                                ]
                            },
                        }
                    ],
                },
            },
        },
    }


@pytest.mark.req("DP-045", "DP-008", "AD-040")
def test_gpus_come_with_their_runtime_class_and_equal_request_and_limit() -> None:
    found = revision(Resources(2, 21_600, False, 1 << 30, True))
    assert pod_spec(found)["runtimeClassName"] == "nvidia"
    assert container(found)["resources"] == {
        "requests": {"cpu": "21600m", "memory": str(1 << 30), "nvidia.com/gpu": "2"},
        "limits": {"memory": str(1 << 30), "nvidia.com/gpu": "2"},
    }


@pytest.mark.req("DP-047")
def test_without_gpus_there_is_no_runtime_class() -> None:
    assert "runtimeClassName" not in pod_spec(revision(options=DockerOptions(runtime="runc")))


@pytest.mark.req("DP-008")
def test_given_cpu_and_memory_are_request_and_limit() -> None:
    found = container(revision(Resources(0, 1500, True, 1 << 29, True)))["resources"]
    assert found["requests"] == found["limits"] == {"cpu": "1500m", "memory": str(1 << 29)}


@pytest.mark.req("DP-016")
def test_a_privileged_container_has_no_other_security_rule() -> None:
    assert container(revision(options=DockerOptions(privileged=True)))["securityContext"] == {"privileged": True}


@pytest.mark.req("DP-063", "DP-005")
def test_binds_are_empty_directories_and_shm_is_memory() -> None:
    found = revision(options=DockerOptions(binds=("/data", "/cache"), shm_size="64m"))
    assert pod_spec(found)["volumes"][1:] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(64 << 20)}},
        {"name": "bind-0", "emptyDir": {}},
        {"name": "bind-1", "emptyDir": {}},
    ]
    assert container(found)["volumeMounts"][1:] == [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "bind-0", "mountPath": "/data"},
        {"name": "bind-1", "mountPath": "/cache"},
    ]


@pytest.mark.req("DP-019", "DP-020", "DP-021", "DP-023", "OPEN-070")
def test_a_probe_is_a_native_exec_probe_with_the_given_timings_only() -> None:
    found = revision(probe=Probe(("/check", "$VAR", "&&", "x"), period_seconds=2))
    assert container(found)["readinessProbe"] == {
        "exec": {"command": ["/check", "$VAR", "&&", "x"]},
        "periodSeconds": 2,
    }
    assert "initContainers" not in pod_spec(found), "nothing is put into the container"
    assert pod_spec(found)["volumes"] == pod_spec(revision())["volumes"]


@pytest.mark.req("DP-118")
def test_words_reach_the_process_unchanged() -> None:
    """Kubernetes would replace $(NAME) and halve $$."""
    found = container(revision(command=("python", "--flag", "$HOME", "$(A)", "a$$b")))
    assert found["args"] == ["python", "--flag", "$HOME", "$$(A)", "a$$$$b"]
    assert "command" not in found


@pytest.mark.req("SC-009")
def test_variables_stand_beside_the_secrets_and_therefore_win_over_them() -> None:
    found = container(revision(env={"B": "2", "A": "$(X)"}))
    assert found["env"][:2] == [{"name": "A", "value": "$$(X)"}, {"name": "B", "value": "2"}]
    assert found["envFrom"] == [{"secretRef": {"name": "dep-abc"}}]


@pytest.mark.req("OPEN-060")
def test_several_replicas_are_replaced_without_surge() -> None:
    spec = manifest.deployment(PLACE, revision(replicas=3))["spec"]
    assert spec["replicas"] == 3
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


@pytest.mark.req("DP-096")
def test_the_fingerprint_tells_pods_apart_and_not_revisions() -> None:
    first = manifest.fingerprint(PLACE, revision())
    assert manifest.fingerprint(PLACE, revision(generation=4)) == first
    assert manifest.fingerprint(PLACE, revision(image="acme/model:v4")) != first
    assert manifest.fingerprint(replace(PLACE, public_url="http://elsewhere"), revision()) != first


def test_the_secret_and_the_account_bear_owner_and_intent() -> None:
    secret = manifest.secret(PLACE, {"A": "x"})
    assert secret["data"] == {"A": "eA=="}
    assert secret["metadata"]["annotations"] == {"anycloud.sh/intent": "dep-abc/Secret"}
    account = manifest.service_account(PLACE)
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["labels"]["anycloud.sh/deployment"] == "dep-abc"
