"""What a killed sandbox or node agent leaves behind, and how the next one goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from kubernetes.aio import client

from tests.support.sandbox import Management, Sandbox, bootstrap_secret
from tests.unit.sandbox.conftest import JOIN, api_client, the
from tests.unit.sandbox.pods import SLEEP, condition, pod, ready


def exists(pid: int) -> bool:
    """Whether it still runs; one that has ended may wait long to be collected."""
    try:
        return stat(pid)[0] not in "ZX"
    except OSError:
        return False


def stat(pid: int) -> list[str]:
    """State, parent, and so on: the fields after the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


async def furnish(sandbox: Sandbox, core: Any, made: Management) -> Any:
    """A pool machine and a Pod that is Ready on it."""
    sandbox.image("test/shell", SLEEP)
    await core.create_namespaced_secret("kube-system", bootstrap_secret(JOIN))
    sandbox.pool_machine(made, "pool-1", JOIN)
    await core.create_namespaced_pod("default", pod("one"))
    return await ready(sandbox, core, "default", "one")


async def pid_of(sandbox: Sandbox, core: Any) -> int:
    """Of the container, which prints it when it has started."""

    async def printed() -> list[str]:
        return list((await core.read_namespaced_pod_log("one", "default")).split())

    return int((await sandbox.until(printed))[1])


async def test_a_killed_agents_containers_are_adopted_and_never_doubled(tmp_path: Path) -> None:
    async with Sandbox(tmp_path) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            before = await furnish(sandbox, core, made)
            pid = await pid_of(sandbox, core)
            for _ in range(3):
                sandbox.end_agent(signal.SIGKILL)
                sandbox.start_agent()
            adopted = await ready(sandbox, core, "default", "one")
            assert adopted.status.container_statuses[0].image_id == before.status.container_statuses[0].image_id != ""
            await core.delete_namespaced_pod("one", "default", grace_period_seconds=5)
            await sandbox.until(lambda: not exists(pid))

            async def gone() -> bool:
                return not (await core.list_namespaced_pod("default")).items

            await sandbox.until(gone)
            assert before.status.container_statuses[0].restart_count == 0


async def test_all_processes_of_a_container_end_with_its_shim_before_it_is_started_again(tmp_path: Path) -> None:
    async with Sandbox(tmp_path) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            await furnish(sandbox, core, made)
            sandbox.image("test/parent", ["sh", "-c", "sleep 600 & echo started $$ $!; wait"])
            await core.create_namespaced_pod("default", pod("two", image="test/parent"))
            await ready(sandbox, core, "default", "two")

            async def started() -> list[str]:
                return list((await core.read_namespaced_pod_log("two", "default")).split()[1:])

            parent, child = map(int, await sandbox.until(started))
            os.kill(int(stat(parent)[1]), signal.SIGKILL)

            async def again() -> Any:
                found = (await core.read_namespaced_pod("two", "default")).status.container_statuses[0]
                return found if found.restart_count == 1 and found.ready else None

            status = await sandbox.until(again)
            assert status.last_state.terminated.exit_code == 137
            assert not exists(parent)
            assert not exists(child)


async def test_a_container_that_ended_without_an_agent_is_reported_and_restarted_once(tmp_path: Path) -> None:
    async with Sandbox(tmp_path) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            await furnish(sandbox, core, made)
            pid = await pid_of(sandbox, core)
            sandbox.end_agent(signal.SIGKILL)
            os.kill(pid, signal.SIGTERM)
            await sandbox.until(lambda: not exists(pid))
            sandbox.start_agent()

            async def restarted() -> Any:
                found = (await core.read_namespaced_pod("one", "default")).status.container_statuses[0]
                return found if found.restart_count == 1 and found.ready else None

            status = await sandbox.until(restarted)
            assert status.last_state.terminated.exit_code == 0
            assert "ended" in await core.read_namespaced_pod_log("one", "default", previous=True)


async def test_a_stopped_agent_is_a_power_cut(tmp_path: Path) -> None:
    async with Sandbox(tmp_path) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            await furnish(sandbox, core, made)
            pid = await pid_of(sandbox, core)
            sandbox.end_agent(signal.SIGTERM)
            assert not exists(pid)
            assert (await core.read_namespaced_pod("one", "default")).status.phase == "Running"


async def test_a_killed_sandbox_comes_back_with_all_it_answered(tmp_path: Path) -> None:
    async with Sandbox(tmp_path) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            await furnish(sandbox, core, made)
            pid = await pid_of(sandbox, core)
            fault = sandbox.fault("capacity", area="nowhere")
            names = [f"map-{number}" for number in range(20)]
            for name in names:
                last = await core.create_namespaced_config_map("default", {"metadata": {"name": name}})
            sandbox.end_world(signal.SIGKILL)
            await asyncio.sleep(0.3)
            sandbox.start_world()

            async def answers() -> Any:
                try:
                    return await core.list_namespaced_config_map("default")
                except Exception:
                    return None

            found = await sandbox.until(answers)
            assert {item.metadata.name for item in found.items} >= set(names)
            assert int(found.metadata.resource_version) >= int(last.metadata.resource_version)
            assert [item["id"] for item in sandbox.call("GET", "/faults")["faults"]] == [fault]
            assert await pid_of(sandbox, core) == pid
            await core.delete_namespaced_pod("one", "default")

            async def gone() -> bool:
                return not (await core.list_namespaced_pod("default")).items

            await sandbox.until(gone)


async def test_projected_tokens_are_renewed_before_they_end(tmp_path: Path) -> None:
    async with Sandbox(tmp_path, rotate_after=0.001) as sandbox:  # of ten minutes: 0.6 s
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            sandbox.image("test/shell", SLEEP)
            await core.create_namespaced_secret("kube-system", bootstrap_secret(JOIN))
            sandbox.pool_machine(made, "pool-1", JOIN)
            source = {"serviceAccountToken": {"audience": "test", "expirationSeconds": 600, "path": "token"}}
            body = pod("one", volumeMounts=[{"name": "identity", "mountPath": "/identity"}])
            body["spec"]["volumes"] = [{"name": "identity", "projected": {"sources": [source]}}]
            await core.create_namespaced_pod("default", body)
            await ready(sandbox, core, "default", "one")
            (path,) = sandbox.state.glob("machines/*/pods/*/volumes/identity/token")
            assert path.stat().st_mode & 0o777 == 0o600
            first = path.read_text()
            await sandbox.until(lambda: path.read_text() != first)
            review = {"spec": {"token": path.read_text(), "audiences": ["test"]}}
            found = await the(client.AuthenticationV1Api(api)).create_token_review(review)
            assert found.status.authenticated


async def test_a_silent_node_is_lost_and_found_again(tmp_path: Path) -> None:
    async with Sandbox(tmp_path, lease_seconds=1.5) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            await furnish(sandbox, core, made)
            fault = sandbox.fault("silent", name="pool-1")

            async def lost() -> bool:
                found = await core.read_node("pool-1")
                taints = {item.key for item in found.spec.taints or []}
                unready = condition(await core.read_namespaced_pod("one", "default"), "Ready") == "False"
                unreachable = "node.kubernetes.io/unreachable" in taints
                return condition(found, "Ready") == "Unknown" and unreachable and unready

            await sandbox.until(lost)
            sandbox.call("DELETE", f"/faults/{fault}")
            await ready(sandbox, core, "default", "one")
            assert condition(await core.read_node("pool-1"), "Ready") == "True"


async def test_an_api_server_that_is_down_loses_nothing(tmp_path: Path) -> None:
    async with Sandbox(tmp_path) as sandbox:
        made = await sandbox.management()
        async with api_client(made) as api:
            core: Any = client.CoreV1Api(api)
            await furnish(sandbox, core, made)
            pid = await pid_of(sandbox, core)
            fault = sandbox.fault("down", area="kube")
            refused = False
            try:
                await core.list_node()
            except Exception:
                refused = True
            assert refused
            sandbox.call("DELETE", f"/faults/{fault}")
            assert await pid_of(sandbox, core) == pid
