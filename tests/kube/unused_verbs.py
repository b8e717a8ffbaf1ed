"""Verbs of the chart's role that nothing in the product uses yet, and why they are there.

The role is the one that the requirements list (AU-002 to AU-014, OPEN-030, OPEN-031), whole groups of verbs for most
resources. A verb that comes into use is to be taken from here, one that goes out of use is to be explained here.
"""

from __future__ import annotations

from tests.kube.audit import Use

_MANAGED = ("get", "list", "watch", "create", "patch", "delete")
_WHOLE = "the requirements give all six verbs on it, and the product needs fewer"
_NAMED = "the requirements name the verb, and the product does without"
_SERVICES = "for cluster Services, which aren't there yet"
_UPGRADES = "for the API's own upgrades and ingress, which aren't there yet"
_EXEC = "for `exec` on cluster Jobs, which isn't there yet"


def _all(reason: str, group: str, resource: str, verbs: tuple[str, ...]) -> dict[Use, str]:
    return {Use(group, resource, verb): reason for verb in verbs}


UNUSED: dict[Use, str] = {
    **_all(_NAMED, "", "namespaces", ("patch",)),
    **_all(_NAMED, "", "nodes", ("get",)),
    **_all(_WHOLE, "", "serviceaccounts", ("patch",)),
    **_all(_WHOLE, "apps", "daemonsets", ("list", "watch")),
    **_all(_WHOLE, "node.k8s.io", "runtimeclasses", ("list", "watch")),
    **_all(_WHOLE, "", "pods", ("create", "patch")),
    **_all(_WHOLE, "batch", "jobs", ("patch",)),
    **_all(_EXEC, "", "pods/exec", ("get", "create")),
    **_all(_SERVICES, "", "services", _MANAGED),
    **_all(_UPGRADES, "helm.cattle.io", "helmcharts", _MANAGED),
    **_all(_UPGRADES, "helm.cattle.io", "helmchartconfigs", _MANAGED),
}
