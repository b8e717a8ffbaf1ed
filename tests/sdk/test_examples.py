"""The examples of the SDKs, against a live gateway."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.contract.world import Api, World
from tests.sdk.building import Built

pytestmark = pytest.mark.timeout(600)  # the first test waits for the builds and the installation


def example(command: list[str], *words: str, api: Api) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ANYCLOUD_API_URL": api.url, "ANYCLOUD_API_TOKEN": api.token}
    return subprocess.run([*command, *words], env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_the_example_submits_a_job_and_waits_until_it_has_completed(
    sdk: Built, world: World, deployments: list[dict[str, Any]]
) -> None:
    done = example(sdk.submit, deployments[0]["name"], api=world.hosted)
    assert done.returncode == 0, done.stdout + done.stderr
    job, said = done.stdout.splitlines()[0].split()
    assert said == "submitted"
    assert done.stdout.splitlines()[-1] == f"{job} completed"
    assert world.hosted.ask("GET", f"/workloads/{job}")["workload"]["state"] == "completed"


def test_the_example_prints_the_contracts_code_of_an_error(sdk: Built, world: World) -> None:
    done = example(sdk.submit, "no-such-deployment", api=world.hosted)
    assert done.returncode == 1
    assert done.stderr.startswith("WORKLOAD_ADMISSION_REJECTED: ")
    assert "no-such-deployment" in done.stderr
    assert done.stdout == ""


def test_the_url_may_end_in_v1_or_a_slash(sdk: Built, world: World, deployments: list[dict[str, Any]]) -> None:
    same = Api(f"{world.hosted.url}/v1/", world.hosted.token)
    assert example(sdk.submit, deployments[0]["id"], api=same).returncode == 0


def test_grpc_lists_what_http_lists(grpc_example: list[str], world: World, deployments: list[dict[str, Any]]) -> None:
    done = example(grpc_example, api=world.hosted)
    assert done.stdout.splitlines() == [f"{d['id']} {d['name']}" for d in reversed(deployments)], done.stderr


@pytest.mark.parametrize(
    ("token", "words", "code"),
    [(None, ["no-such"], "DEPLOYMENT_NOT_FOUND"), ("wrong", [], "UNAUTHORIZED")],
)
def test_grpc_errors_have_the_contracts_code_as_their_reason(
    grpc_example: list[str], world: World, token: str | None, words: list[str], code: str
) -> None:
    done = example(grpc_example, *words, api=Api(world.hosted.url, token or world.hosted.token))
    assert done.returncode == 1
    assert done.stderr.startswith(f"{code}: ")
