"""What a Deployment may be asked to be, before anything else is known."""

from __future__ import annotations

import pytest
from anycloud_deployment.domain.model import DockerOptions, Probe, Spec
from anycloud_deployment.domain.quantities import cpu_millis, size_bytes
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.domain.spec import check_spec, refuse_unsupported

IMAGE = "ghcr.io/acme/model:latest"


def refused(**settings: object) -> str:
    with pytest.raises(Refusal) as refusal:
        check_spec(Spec(**{"image": IMAGE, **settings}))  # type: ignore[arg-type]
    assert refusal.value.code == "DEPLOYMENT_INVALID"
    return refusal.value.message


def refused_options(**options: object) -> str:
    return refused(options=DockerOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "image",
    [
        "worker",
        "anycloud-demo/worker",
        "ghcr.io/acme/model:latest",
        "localhost:5000/a/b_c.d--e:v1.2",
        "registry.example.com/a@sha256:" + "a" * 64,
        "a:tag@sha256:" + "0" * 64,
    ],
)
def test_image_references_of_the_usual_shapes_are_accepted(image: str) -> None:
    check_spec(Spec(image=image))


@pytest.mark.parametrize(
    "image",
    ["", "Upper/case", "a b", "a:", "a@sha256:abc", "https://ghcr.io/a", "a//b", "/a", "a" * 300, "a:" + "t" * 129],
)
def test_other_image_references_are_refused_by_name(image: str) -> None:
    assert refused(image=image).startswith("image")


@pytest.mark.req("DP-063")
@pytest.mark.parametrize("binds", [("/data",), ("/data", "/database"), ("/a/b", "/a/c"), ("/var/lib/x",)])
def test_absolute_paths_beside_each_other_are_binds(binds: tuple[str, ...]) -> None:
    check_spec(Spec(image=IMAGE, options=DockerOptions(binds=binds)))


@pytest.mark.req("DP-065")
@pytest.mark.parametrize("bind", ["/a:/b", "vol:/b", "/b:ro", "/host:/b:rw", "vol", "./data", ""])
def test_host_paths_volumes_modes_and_relative_paths_are_refused(bind: str) -> None:
    assert refused_options(binds=(bind,)).startswith("dockerOptions.binds")


@pytest.mark.req("DP-066")
@pytest.mark.parametrize("binds", [("/a", "/a/b"), ("/a/b", "/a"), ("/a", "/a"), ("/x", "/a/b/c", "/a/b")])
def test_overlapping_binds_are_refused(binds: tuple[str, ...]) -> None:
    assert "overlap" in refused_options(binds=binds)


@pytest.mark.req("DP-067")
@pytest.mark.parametrize(
    "bind",
    [
        "/",
        "/dev",
        "/dev/shm",
        "/proc",
        "/proc/1",
        "/sys",
        "/sys/fs",
        "/var",
        "/var/run",
        "/var/run/secrets",
        "/var/run/secrets/anycloud.sh",
        "/run",
        "/run/secrets/x",
    ],
)
def test_binds_over_devices_kernel_views_and_tokens_are_refused(bind: str) -> None:
    assert "covers" in refused_options(binds=(bind,))


@pytest.mark.parametrize("bind", ["/a/", "//a", "/a//b", "/a/../b", "/a/./b", "/a\n"])
def test_paths_with_a_second_spelling_are_refused(bind: str) -> None:
    assert refused_options(binds=(bind,)).startswith("dockerOptions.binds")


@pytest.mark.req("DP-044")
@pytest.mark.parametrize("option", ["cpus", "gpus", "memory", "runtime", "shm_size"])
def test_an_empty_option_is_refused(option: str) -> None:
    assert "is empty" in refused_options(**{option: ""})


@pytest.mark.req("DP-044")
def test_an_empty_bind_is_refused() -> None:
    assert "empty path" in refused_options(binds=("",))


@pytest.mark.req("DP-044")
@pytest.mark.parametrize("option", ["ipc", "network", "ulimits"])
def test_options_that_a_node_pool_cannot_give_are_refused_by_name(option: str) -> None:
    with pytest.raises(Refusal, match=f"dockerOptions.{option} isn't supported"):
        refuse_unsupported(**{option: True})


def test_runtimes_are_two() -> None:
    assert "must be nvidia or runc" in refused_options(runtime="kata")


@pytest.mark.parametrize(("text", "millis"), [("1", 1000), ("0.5", 500), ("6", 6000), ("1.25", 1250), ("0.001", 1)])
def test_cpus_are_numbers_with_up_to_three_decimals(text: str, millis: int) -> None:
    assert cpu_millis(text) == millis


@pytest.mark.parametrize("text", ["0", "0.0", "-1", "500m", "1.2345", "a", "1e3", " 1", "1 "])
def test_other_cpus_are_refused(text: str) -> None:
    assert "dockerOptions.cpus" in refused_options(cpus=text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1m", 1 << 20), ("512M", 512 << 20), ("2g", 2 << 30), ("2Gi", 2 << 30), ("2GiB", 2 << 30), ("1.5g", 3 << 29)],
)
def test_sizes_are_powers_of_1024_in_either_case(text: str, size: int) -> None:
    assert size_bytes("memory", text) == size


@pytest.mark.parametrize("text", ["0", "1", "1k", "-1g", "g", "1 g", "1x", "2000t"])
def test_other_sizes_are_refused_under_the_options_name(text: str) -> None:
    assert "dockerOptions.memory" in refused_options(memory=text)
    assert "dockerOptions.shmSize" in refused_options(shm_size=text)


@pytest.mark.req("OPEN-070")
@pytest.mark.parametrize(
    ("field", "value", "wire"),
    [
        ("initial_delay_seconds", -1, "initialDelaySeconds"),
        ("initial_delay_seconds", 86401, "initialDelaySeconds"),
        ("period_seconds", 0, "periodSeconds"),
        ("timeout_seconds", 3601, "timeoutSeconds"),
        ("success_threshold", 0, "successThreshold"),
        ("failure_threshold", 101, "failureThreshold"),
    ],
)
def test_probe_timings_out_of_bounds_are_refused_by_name(field: str, value: int, wire: str) -> None:
    assert f"readinessProbe.{wire} is {value}" in refused(probe=Probe(("/check",), **{field: value}))


@pytest.mark.parametrize("command", [(), ("",), ("x" * 4097,), ("a",) * 129])
def test_a_probe_needs_a_program_and_bounded_words(command: tuple[str, ...]) -> None:
    assert refused(probe=Probe(command)).startswith("readinessProbe.exec.command")


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "É", "A=B"])
def test_names_that_are_no_variables_are_refused(name: str) -> None:
    assert refused(env={name: "marker-value"}).startswith("env")
    assert "marker-value" not in refused(env={name: "marker-value"})


@pytest.mark.parametrize("name", ["ANYCLOUD_API_URL", "ANYCLOUD_DEPLOYMENT_ID", "ANYCLOUD_WORKLOAD_TOKEN_FILE"])
def test_variables_that_anycloud_gives_are_refused(name: str) -> None:
    assert "is set by Anycloud" in refused(env={name: "x"})


@pytest.mark.parametrize("secrets", [("a", "a"), ("a", "A"), ("1a",), ("",), ("a b",), ("a" * 65,)])
def test_secret_names_are_checked_and_named_once(secrets: tuple[str, ...]) -> None:
    assert refused(secrets=secrets).startswith("secrets")


@pytest.mark.parametrize(("field", "wire"), [("replicas", "replicas"), ("slots", "maxConcurrentJobsPerReplica")])
@pytest.mark.parametrize("value", [0, -1, 10_001])
def test_counts_are_bounded(field: str, wire: str, value: int) -> None:
    assert refused(**{field: value}).startswith(wire)
