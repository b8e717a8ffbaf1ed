"""Short Pods for tests."""

from __future__ import annotations

from typing import Any

from tests.support.sandbox import Sandbox

Json = dict[str, Any]
SLEEP = ["/bin/sh", "-c", "trap 'echo ended; exit 0' TERM; echo started $$; while true; do sleep 0.05; done"]


def pod(name: str, *command: str, image: str = "test/shell", **container: Any) -> Json:
    spec = {"name": "main", "image": image, **({"command": list(command)} if command else {}), **container}
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [spec]}}


def deployment(name: str, body: Json, **spec: Any) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": body["spec"]}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


async def ready(sandbox: Sandbox, core: Any, namespace: str, name: str) -> Any:
    """The Pod, once it is Ready."""

    async def check() -> Any:
        found = await core.read_namespaced_pod(name, namespace)
        return found if condition(found, "Ready") == "True" else None

    return await sandbox.until(check)


def condition(obj: Any, kind: str) -> str | None:
    return next((item.status for item in obj.status.conditions or [] if item.type == kind), None)


async def waiting(sandbox: Sandbox, core: Any, namespace: str, name: str, reason: str) -> Any:
    """The container's status, once it waits for that reason."""

    async def check() -> Any:
        statuses = (await core.read_namespaced_pod(name, namespace)).status.container_statuses or []
        state = statuses[0].state.waiting if statuses else None
        return statuses[0] if state and state.reason == reason else None

    return await sandbox.until(check)
