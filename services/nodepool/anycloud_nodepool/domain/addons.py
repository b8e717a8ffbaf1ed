"""What GPU pools need once in a cluster: the `nvidia` RuntimeClass and the device plugin's DaemonSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from anycloud_common.kube import KINDS, names

from anycloud_nodepool.domain import pins

Object = dict[str, Any]

DEVICE_PLUGIN: Final = "anycloud-nvidia-device-plugin"
# UID of the control plane's kube-system: by it the objects of a cluster that was destroyed are known again.
LABEL_CONTROL_PLANE: Final = "anycloud.sh/control-plane"
_LABEL_APP: Final = "app.kubernetes.io/name"
_PLUGIN_SOCKETS: Final = "/var/lib/kubelet/device-plugins"
_K3S_OWNER: Final = ("objectset.rio.cattle.io/owner-gvk", "k3s.cattle.io/v1, Kind=Addon")
# Fields of which the API server lets nothing be changed, by kind.
_IMMUTABLE: Final[Mapping[str, tuple[str, ...]]] = {"RuntimeClass": ("handler",), "DaemonSet": ("spec", "selector")}
# Maps to which nothing may be added.
_EXACT: Final = ("nodeSelector", "matchLabels", "overhead", "scheduling")


@dataclass(frozen=True)
class Installation:
    """The cluster as recorded now, and the UID of its control plane."""

    cluster_id: str
    identity: str

    @property
    def owner(self) -> dict[str, str]:
        """Labels of every add-on object."""
        return {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_CLUSTER: self.cluster_id,
            LABEL_CONTROL_PLANE: self.identity,
        }


@dataclass(frozen=True)
class Addon:
    """An object of the add-on. `namespace` None: of the whole cluster."""

    kind: str
    name: str
    namespace: str | None
    body: Object

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Verdict(Enum):
    """What is to be done about what bears an add-on object's name."""

    CREATE = "create"
    LEAVE = "leave"
    REWRITE = "rewrite"
    RECREATE = "recreate"
    FOREIGN = "foreign"


def nvidia(installation: Installation) -> tuple[Addon, ...]:
    """The objects of the NVIDIA add-on, in the order in which they are made."""
    return (_runtime_class(installation), _device_plugin(installation))


def judge(addon: Addon, live: Object | None, installation: Installation) -> Verdict:
    """Ours is what bears our labels of this control plane, whichever cluster record it was made for."""
    if live is None:
        return Verdict.CREATE
    if not _is_ours(live, installation):
        return Verdict.LEAVE if _is_k3s_own(addon, live) else Verdict.FOREIGN
    path = _IMMUTABLE[addon.kind]
    if _at(live, path) != _at(addon.body, path):
        return Verdict.RECREATE
    return Verdict.LEAVE if _covers(live, addon.body) else Verdict.REWRITE


def foreign_problem(addon: Addon) -> str:
    """Names the object, and the command that removes it."""
    scope = f"-n {addon.namespace} " if addon.namespace else ""
    remedy = f"kubectl {scope}delete {KINDS[addon.kind].resource} {addon.name}"
    return f"{addon} exists and does not belong to Anycloud, which needs that name. Remove it with `{remedy}`."


def describe(addon: Addon, live: Object | None) -> str:
    """Object and state, in a few words."""
    if live is None:
        return f"{addon} absent"
    if addon.kind != "DaemonSet":
        return f"{addon} present"
    status = live.get("status") or {}
    ready, desired = status.get("numberReady") or 0, status.get("desiredNumberScheduled") or 0
    return f"{addon} {ready}/{desired} ready"


def _runtime_class(installation: Installation) -> Addon:
    body = {
        "metadata": {"name": names.RUNTIME_CLASS_NVIDIA, **_marks(installation, names.RUNTIME_CLASS_NVIDIA)},
        "handler": "nvidia",
    }
    return Addon("RuntimeClass", names.RUNTIME_CLASS_NVIDIA, None, body)


def _device_plugin(installation: Installation) -> Addon:
    """Runs on this cluster's NVIDIA Nodes only, so without any it is inert."""
    app = {_LABEL_APP: DEVICE_PLUGIN}
    body = {
        "metadata": {
            "name": DEVICE_PLUGIN,
            "namespace": names.NAMESPACE_SYSTEM,
            **_marks(installation, DEVICE_PLUGIN),
        },
        "spec": {
            "selector": {"matchLabels": app},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": app}, "spec": _plugin_pod(installation.cluster_id)},
        },
    }
    return Addon("DaemonSet", DEVICE_PLUGIN, names.NAMESPACE_SYSTEM, body)


def _plugin_pod(cluster_id: str) -> Object:
    return {
        "nodeSelector": {names.LABEL_CLUSTER: cluster_id, names.LABEL_ACCELERATOR: names.ACCELERATOR_NVIDIA},
        "tolerations": [{"key": names.TAINT_NODE_POOL, "operator": "Exists", "effect": names.NO_SCHEDULE}],
        "runtimeClassName": names.RUNTIME_CLASS_NVIDIA,
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "device-plugin",
                "image": pins.DEVICE_PLUGIN_IMAGE,
                "env": [
                    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
                ],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "sockets", "mountPath": _PLUGIN_SOCKETS}],
            }
        ],
        "volumes": [{"name": "sockets", "hostPath": {"path": _PLUGIN_SOCKETS, "type": "Directory"}}],
    }


def _marks(installation: Installation, intent: str) -> Object:
    return {"labels": installation.owner, "annotations": {names.ANNOTATION_INTENT: intent}}


def _is_ours(live: Object, installation: Installation) -> bool:
    labels = live["metadata"].get("labels") or {}
    ours = labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
    return ours and labels.get(LABEL_CONTROL_PLANE) == installation.identity


def _is_k3s_own(addon: Addon, live: Object) -> bool:
    """K3s brings a RuntimeClass of that name itself, which is as good as ours while nothing is overridden in it."""
    key, value = _K3S_OWNER
    plain = not live.get("overhead") and not live.get("scheduling")
    by_k3s = (live["metadata"].get("annotations") or {}).get(key) == value
    return addon.kind == "RuntimeClass" and by_k3s and plain and live.get("handler") == addon.body["handler"]


def _covers(live: Any, wanted: Any, name: str = "") -> bool:
    """Whether all that is wanted is there; what the API server adds by itself doesn't count as a difference."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict) or (name in _EXACT and live != wanted):
            return False
        return all(_covers(live.get(key), value, key) for key, value in wanted.items())
    if isinstance(wanted, list):
        same_length = isinstance(live, list) and len(live) == len(wanted)
        return same_length and all(map(_covers, live, wanted))
    return bool(live == wanted)


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for part in path:
        found = (found or {}).get(part)
    return found
