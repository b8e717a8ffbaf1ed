"""Making a cluster: order of the steps, what goes on by itself, what fails, and what a second `create` continues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from anycloud_cluster.domain import pins
from anycloud_cluster.domain.cluster import CREATE_PHASES, Cluster, State
from anycloud_cluster.domain.ports import OutsideError
from anycloud_cluster.reconcile import create
from anycloud_cluster.store import clusters, events, ledger
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_common.release_values import ReleaseValues

from tests.unit.cluster.fakes import IMAGE, SIGN_IN, World
from tests.unit.cluster.installation import TARGET, Installation, at_rest


def running(cluster: Cluster) -> bool:
    return cluster.state is State.RUNNING


def secret_values(world: World) -> dict[str, Any]:
    """What the API's HelmChart takes from its Secret."""
    (source,) = chart(world)["spec"]["valuesSecrets"]
    secret = world.objects["Secret", "kube-system", source["name"]]
    (key,) = source["keys"]
    return dict(yaml.safe_load(secret["stringData"][key]))


def chart(world: World, name: str = "anycloud-api") -> dict[str, Any]:
    return world.objects["HelmChart", "kube-system", name]


def test_the_steps_of_the_record_are_those_of_the_reconciler() -> None:
    assert list(create.PHASES) == list(CREATE_PHASES)


@pytest.mark.req("CL-013", "CL-014", "CL-015", "CL-016", "CL-017", "CL-018", "CL-019")
async def test_target_and_pins_are_on_record_before_anything_is_asked_for_outside(
    installer: Installation, world: World
) -> None:
    cluster = await installer.create()
    assert world.calls == []
    assert cluster.target == TARGET
    assert (cluster.k3s_version, cluster.k3s_sha256) == (pins.K3S_VERSION, pins.K3S_SHA256)
    assert "@sha256:" in (cluster.helm_job_image or "")
    assert cluster.api_image == IMAGE
    assert cluster.chart_digest == "sha256:" + "cd" * 32
    assert (cluster.bucket, cluster.bucket_managed) == (cluster.id, True)


@pytest.mark.req("CL-026", "CL-058", "CL-059", "CL-060")
async def test_the_steps_run_in_order_through_the_states(installer: Installation) -> None:
    cluster = await installer.create()
    seen: list[State] = []

    def note(now: Cluster) -> bool:
        if not seen or seen[-1] is not now.state:
            seen.append(now.state)
        return running(now)

    await installer.drive(note)
    assert seen == [State.PROVISIONING, State.INITIALIZING, State.STARTING, State.RUNNING]
    log = [e.reason for e in await installer.store.read(lambda conn: events.of_cluster(conn, cluster.id))]
    assert [r.removeprefix("create.") for r in log if r not in ("create.recorded", "release.seeded")] == list(
        CREATE_PHASES
    )


@pytest.mark.req("CL-027", "CL-079", "CL-080", "CL-072", "CL-082")
async def test_one_machine_is_bought_behind_the_rules_of_management(running: Installation, world: World) -> None:
    [machine] = world.cloud.machines()
    assert (machine.vm_type, machine.region) == ("t3.large", "us-east-1")
    [network] = await running.worlds._open["cred-aws"][1].networks.list({})
    open_to_all = [rule.ports for rule in network.rules if rule.sources == ("0.0.0.0/0",)]
    behind = [rule for rule in network.rules if rule.sources != ("0.0.0.0/0",)]
    assert open_to_all == [(22, 6443)]
    assert [rule.ports for rule in behind] == [(80, 443)]
    assert "173.245.48.0/20" in behind[0].sources
    assert machine.address == (await running.cluster()).address
    rows = await running.store.read(ledger.unfinished)
    assert rows == []


@pytest.mark.req("CL-023", "CL-024")
async def test_a_managed_bucket_is_named_after_the_cluster_and_versioned(running: Installation, world: World) -> None:
    cluster = await running.cluster()
    held = world.cloud.buckets[cluster.id].bucket
    assert held.versioning
    assert held.managed


@pytest.mark.req("CL-020", "CL-021", "CL-022")
async def test_a_bucket_of_the_users_must_be_there_and_is_left_as_it_is(installer: Installation, world: World) -> None:
    with pytest.raises(ApiError, match="there is no bucket mine") as caught:
        await installer.create(target=replace(TARGET, bucket="mine"))
    assert caught.value.code == "CLUSTER_INVALID"
    assert await installer.store.read(clusters.everything) == []
    await world.cloud.provider().buckets.create("mine", "us-east-1", {})
    await installer.create(target=replace(TARGET, bucket="mine"))
    cluster = await installer.drive(running)
    assert (cluster.bucket, cluster.bucket_managed) == ("mine", False)
    assert list(world.cloud.buckets) == ["mine"]
    assert not world.cloud.buckets["mine"].bucket.versioning


@pytest.mark.req("CL-030", "CL-031", "CL-032", "CL-033", "CL-034", "AU-025", "AU-026")
async def test_k3s_is_configured_through_stdin_alone(running: Installation, world: World) -> None:
    config = yaml.safe_load(world.config or "")
    cluster = await running.cluster()
    assert config["node-taint"] == ["node-role.kubernetes.io/control-plane=true:NoSchedule"]
    assert config["node-label"] == ["anycloud.sh/cluster-management=true"]
    assert config["tls-san"] == [cluster.address]
    assert "traefik" in config["disable"]
    secrets = [config["token"], config["agent-token"]]
    for command, stdin in world.transcript:
        assert not any(secret in command for secret in secrets)
        assert "config.yaml" not in command or stdin == world.config


@pytest.mark.req("CL-029")
async def test_k3s_is_the_recorded_release_checked_by_its_recorded_checksum(
    installer: Installation, world: World
) -> None:
    world.corrupt = True
    await installer.create()
    cluster = await installer.drive(at_rest)
    assert (cluster.state, cluster.phase) == (State.FAILED, "k3s")
    assert "checksum" in (cluster.last_error or "")
    script = next(stdin for command, stdin in world.transcript if command == "sudo sh -s")
    assert f"# k3s-version: {pins.K3S_VERSION}" in script
    assert f'"{pins.K3S_SHA256}  $binary.new" | sha256sum --check' in script
    assert "HelmChart" not in {kind for kind, _, _ in world.objects}


@pytest.mark.req("CL-035", "CL-036", "CL-037")
async def test_the_installer_gets_an_account_of_its_own_with_a_lasting_token(
    running: Installation, world: World
) -> None:
    assert ("ServiceAccount", "kube-system", "anycloud-installer") in world.objects
    binding = world.objects["ClusterRoleBinding", "", "anycloud-installer"]
    assert binding["roleRef"]["name"] == "cluster-admin"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "anycloud-installer", "namespace": "kube-system"}]
    assert world.objects["Secret", "kube-system", "anycloud-installer-token"]["type"] == (
        "kubernetes.io/service-account-token"
    )


@pytest.mark.req("CL-038", "CL-040", "CL-041")
async def test_the_connection_is_bound_and_sealed(running: Installation) -> None:
    cluster = await running.cluster()
    assert cluster.kubernetes_identity == "uid-of-kube-system"
    stored = clusters.opened(running.cipher, cluster, "sealed_connection")
    assert stored.keys() == {"endpoint", "ca", "token"}
    assert stored["endpoint"] == f"https://{cluster.address}:6443"
    assert b"installer-account-token" not in (cluster.sealed_connection or b"")
    assert cluster.connection_revision == 1


@pytest.mark.req("CL-043", "CL-044", "BK-015")
async def test_the_release_is_one_helm_chart_with_the_release_values(running: Installation, world: World) -> None:
    cluster = await running.cluster()
    values = yaml.safe_load(chart(world)["spec"]["valuesContent"])
    assert (values["image"], values["revision"]) == (IMAGE, 1)
    values["release"]["checkpoint"] |= secret_values(world)["release"]["checkpoint"]
    release = ReleaseValues.from_document(values["release"])
    assert (release.cluster.id, release.cluster.name) == (cluster.id, "prod")
    assert (release.cluster.identity, release.cluster.endpoint) == (cluster.kubernetes_identity, cluster.endpoint)
    assert release.api.url == cluster.api_url
    assert release.owner.username == "demo"
    assert release.checkpoint.bucket == cluster.id
    assert chart(world)["spec"]["chart"].endswith(f"@{cluster.chart_digest}")
    assert chart(world)["spec"]["failurePolicy"] == "abort"


@pytest.mark.req("BK-015")
async def test_the_credential_goes_to_the_cluster_in_a_secret_that_is_there_before_the_chart(
    running: Installation, world: World
) -> None:
    word = secret_values(world)["release"]["checkpoint"]["credential"]["secretAccessKey"]
    assert word
    assert word not in str(chart(world))
    assert world.calls.index("kube.ensure Secret") < world.calls.index("kube.ensure HelmChart")


@pytest.mark.req("CL-046", "CL-074", "CL-075", "CL-049", "CL-050", "CL-073")
async def test_record_certificate_and_ingress_are_made(running: Installation, world: World) -> None:
    cluster = await running.cluster()
    assert world.records == {f"{cluster.id}.anycloud.sh": cluster.address}
    secret = world.objects["Secret", "kube-system", "anycloud-origin"]
    assert secret["stringData"]["tls.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert secret["stringData"]["tls.crt"] == "certificate cert-1"
    traefik = yaml.safe_load(chart(world, "anycloud-traefik")["spec"]["valuesContent"])
    assert traefik["nodeSelector"] == {"anycloud.sh/cluster-management": "true"}
    [route] = [o for o in traefik["extraObjects"] if o["kind"] == "IngressRoute"]
    assert route["spec"]["routes"][0]["match"] == f"Host(`{cluster.id}.anycloud.sh`)"


@pytest.mark.req("CL-051", "CL-052", "CL-053", "CL-054")
async def test_it_runs_only_when_the_expected_version_is_served(installer: Installation, world: World) -> None:
    world.version = "0.1.69"
    await installer.create()
    with pytest.raises(AssertionError):
        await installer.drive(running, steps=20)
    cluster = await installer.cluster()
    assert (cluster.state, cluster.phase) == (State.STARTING, "serve")
    assert "serves version 0.1.69" in (cluster.last_error or "")
    world.version = "0.1.70"
    cluster = await installer.drive(running)
    assert cluster.last_error is None


@pytest.mark.req("CL-048")
async def test_the_sign_in_is_dropped_once_no_step_needs_it(running: Installation) -> None:
    assert (await running.cluster()).sealed_github_token is None


async def test_in_the_sandbox_the_record_comes_before_the_release_as_it_makes_the_url(
    installer: Installation, world: World
) -> None:
    world.url_known = False
    await installer.create()
    cluster = await installer.drive(running)
    assert world.calls.index("dns.publish") < world.calls.index("kube.ensure HelmChart")
    assert cluster.api_url == f"https://{cluster.id}.anycloud.sh"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("ssh.open", OutsideError("unreachable", "no route to host")),
        ("ssh.run", OutsideError("unreachable", "connection reset")),
        ("kube.ensure", KubeError("unreachable", "connection refused")),
        ("kube.uid", KubeError("throttled", "too many requests")),
        ("kube.ensure", KubeError("not_found", "the server could not find the requested resource", 404)),
        ("dns.publish", OutsideError("unreachable", "timeout")),
        ("dns.sign", OutsideError("throttled", "slow down")),
    ],
)
async def test_what_may_pass_is_tried_again_and_fails_nothing(
    installer: Installation, world: World, call: str, error: Exception
) -> None:
    world.fault(call, error, error)
    await installer.create()
    cluster = await installer.drive(running, steps=80)
    assert len(world.cloud.machines()) == 1
    assert cluster.last_error is None


@pytest.mark.req("CL-132")
async def test_the_reason_of_a_wait_is_shown(installer: Installation, world: World) -> None:
    world.fault("ssh.open", *[OutsideError("unreachable", "no route to host")] * 50)
    await installer.create()
    cluster = await installer.drive(lambda c: c.last_error is not None)
    assert (cluster.state, cluster.last_error) == (State.INITIALIZING, "no route to host")


@pytest.mark.parametrize(
    ("action", "kind", "phase"),
    [
        ("create_machine", "auth", "machine"),
        ("create_machine", "invalid", "machine"),
        ("create_network", "auth", "network"),
        ("create_bucket", "invalid", "bucket"),
    ],
)
@pytest.mark.req("CL-061", "CL-062")
async def test_a_refusal_fails_the_cluster_and_create_again_continues_there(
    installer: Installation, world: World, action: str, kind: Any, phase: str
) -> None:
    world.cloud.fail(action, kind)
    await installer.create()
    cluster = await installer.drive(at_rest)
    assert (cluster.state, cluster.phase) == (State.FAILED, phase)
    assert f"injected {kind}" in (cluster.last_error or "")
    again = await installer.create()
    assert (again.id, again.state, again.last_error) == (cluster.id, CREATE_PHASES[phase], None)
    await installer.drive(running)
    assert len(world.cloud.machines()) == 1


async def test_a_lack_of_capacity_is_waited_out_with_another_attempt_each_time(
    installer: Installation, world: World
) -> None:
    world.cloud.fail("create_machine", "capacity", times=3)
    await installer.create()
    await installer.drive(running, steps=120)
    [machine] = [row for row in await _rows(installer) if row.kind == "machine"]
    assert machine.attempt == 4
    assert len(world.cloud.machines()) == 1


async def test_quota_fails_the_cluster_after_five_attempts(installer: Installation, world: World) -> None:
    world.cloud.fail("create_machine", "quota", times=5)
    await installer.create()
    cluster = await installer.drive(at_rest, steps=200)
    assert cluster.state is State.FAILED
    assert "(quota): injected quota" in (cluster.last_error or "")
    assert [call for call in world.cloud.calls if call[1] == "create_machine"].__len__() == 5


@pytest.mark.req("CL-065")
async def test_another_control_plane_behind_the_address_is_refused_and_nothing_is_written_to_it(
    installer: Installation, world: World
) -> None:
    world.fault("kube.ensure", *[KubeError("forbidden", "no rights", 403)])
    await installer.create()
    cluster = await installer.drive(at_rest)
    assert (cluster.state, cluster.phase) == (State.FAILED, "release")
    await installer.store.write(lambda tx: clusters.change(tx, cluster, {"phase": "connection"}))
    world.uid, before = "uid-of-a-stranger", dict(world.objects)
    await installer.create()
    cluster = await installer.drive(at_rest)
    assert cluster.state is State.FAILED
    assert "uid-of-a-stranger" in (cluster.last_error or "")
    assert cluster.kubernetes_identity == "uid-of-kube-system"
    assert world.objects == before


@pytest.mark.req("CL-063", "CL-064", "CL-042")
async def test_a_resume_adopts_connection_and_release_intent(installer: Installation, world: World) -> None:
    world.foreign = {("HelmChart", "anycloud-traefik")}
    await installer.create()
    failed = await installer.drive(at_rest)
    assert (failed.state, failed.phase) == (State.FAILED, "dns")
    assert "kubectl -n kube-system delete helmcharts.helm.cattle.io anycloud-traefik" in (failed.last_error or "")
    world.foreign = set()
    await installer.create()
    cluster = await installer.drive(running)
    assert cluster.sealed_connection == failed.sealed_connection
    assert (cluster.release_revision, cluster.connection_revision) == (1, 1)
    assert world.certificates.valid == {world.certificates.signed[-1]}


async def test_a_refused_sign_in_blocks_the_step_and_create_again_brings_a_fresh_one(
    installer: Installation, world: World
) -> None:
    await installer.create()
    world.refused = {SIGN_IN}
    cluster = await installer.drive(lambda c: c.blocked)
    assert cluster.state is State.STARTING
    assert (cluster.last_error or "").startswith("GITHUB_SIGN_IN_REQUIRED: ")
    world.calls.clear()
    await installer.step()
    assert set(world.calls) <= {"cloud.list_machines"}
    with pytest.raises(ApiError) as caught:
        await installer.create()
    assert caught.value.code == "GITHUB_SIGN_IN_REQUIRED"
    world.refused = set()
    await installer.create()
    await installer.drive(running)
    assert len(world.cloud.machines()) == 1


async def test_a_step_that_takes_half_an_hour_has_failed(installer: Installation, world: World) -> None:
    world.version = "0.1.69"
    await installer.create()
    await installer.drive(lambda c: c.phase == "serve")
    await installer.clock.advance(31 * 60)
    cluster = await installer.drive(at_rest)
    assert cluster.state is State.FAILED
    assert "longer than 30 minutes" in (cluster.last_error or "")


@pytest.mark.req("CL-045")
async def test_nothing_is_written_into_k3s_watched_manifests(running: Installation, world: World) -> None:
    assert not any("manifests" in command or "server/manifests" in stdin for command, stdin in world.transcript)


@pytest.mark.req("CL-039")
async def test_no_admin_credential_leaves_the_machine(running: Installation, world: World) -> None:
    read = {command for command, _ in world.transcript if "cat " in command or "get --raw" in command}
    assert {r.rpartition(" ")[2] for r in read if not r.startswith("sudo sh")} == {
        "/var/lib/rancher/k3s/server/tls/server-ca.crt",
        "/api/v1/namespaces/kube-system/secrets/anycloud-installer-token",
    }


async def _rows(installer: Installation) -> list[Any]:
    cluster = await installer.cluster()
    return list(await installer.store.read(lambda conn: ledger.of_owner(conn, "cluster", cluster.id)))
