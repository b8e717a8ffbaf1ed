"""Image references, and what a registry says about them."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.registry import (
    InvalidReference,
    NotFound,
    Registry,
    Unavailable,
    is_ghcr_anycloud,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sandbox import Sandbox
from tests.unit.outside.conftest import Outside

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("ubuntu", "docker.io", "library/ubuntu", None, None),
        ("docker.io/ubuntu:24.04", "docker.io", "library/ubuntu", "24.04", None),
        ("acme/model", "docker.io", "acme/model", None, None),
        ("ghcr.io/acme/model:latest", "ghcr.io", "acme/model", "latest", None),
        (f"ghcr.io/x/y:tag@{DIGEST}", "ghcr.io", "x/y", "tag", DIGEST),
        (f"ghcr.io/x/y@{DIGEST}", "ghcr.io", "x/y", None, DIGEST),
        ("localhost/x", "localhost", "x", None, None),
        ("123/4", "docker.io", "123/4", None, None),
        ("127.0.0.1:5000/a/b/c:v1_2.3-4", "127.0.0.1:5000", "a/b/c", "v1_2.3-4", None),
        ("GHCR.io/a__b/c-d.e", "ghcr.io", "a__b/c-d.e", None, None),
    ],
)
def test_a_reference_is_taken_apart_as_docker_does(
    text: str, registry: str, repository: str, tag: str | None, digest: str | None
) -> None:
    found = parse(text)
    assert (found.registry, found.repository, found.tag, found.digest) == (registry, repository, tag, digest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ubuntu",
        "ubuntu\n",
        "Acme/model",
        "acme//model",
        "/acme",
        "acme/",
        "a:b:c",
        "ubuntu:",
        "ubuntu:-x",
        "ubuntu@sha256:abc",
        f"ubuntu@{DIGEST.upper()}",
        "https://ghcr.io/x/y",
        "ubuntu:" + "x" * 129,
        "a" * 256,
        "-x",
        "--privileged",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(InvalidReference, match="no image reference"):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except InvalidReference:
        return
    assert parse(found.pinned(DIGEST)).digest == DIGEST


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("ghcr.io/anycloud-sh/api", True),
        (f"ghcr.io/anycloud-sh/api:0.1.70@{DIGEST}", True),
        ("ghcr.io/anycloud-sh/api2:0.1.70", False),
        ("ghcr.io/anycloud-sh/api/x", False),
        ("ghcr.io/anycloud-sh-x/api", False),
        ("ghcr.io.evil.example/anycloud-sh/api", False),
        ("evil.example/ghcr.io/anycloud-sh/api", False),
        ("docker.io/anycloud-sh/api", False),
        ("anycloud-sh/api", False),
        ("ghcr.io:443/anycloud-sh/api", False),
        ("ghcr.io/anycloud-sh/api latest", False),
    ],
)
def test_only_the_published_api_image_is_ours(text: str, ours: bool) -> None:
    assert is_ghcr_anycloud(text) is ours


async def test_a_registered_image_resolves_to_its_digest(sandbox: Sandbox) -> None:
    digest = sandbox.image("anycloud-demo/worker:1", ["worker"], accelerator="cuda", env={"A": "b"}, labels={"l": "v"})
    registry = Registry(f"{sandbox.url}/registry")
    image = await registry.resolve("anycloud-demo/worker:1")
    assert (image.digest, image.accelerator, image.command) == (digest, "cuda", ("worker",))
    assert (image.env, image.labels) == ({"A": "b"}, {"l": "v"})
    assert image.pinned == f"anycloud-demo/worker@{digest}"
    assert (await registry.resolve(image.pinned)).digest == digest
    with pytest.raises(NotFound, match="worker:2"):
        await registry.resolve("anycloud-demo/worker:2")
    await registry.close()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, {"message": "no"}, NotFound),
        (403, {}, NotFound),
        (503, {"message": "busy"}, Unavailable),
        (200, "not json", Unavailable),
        (200, {"digest": DIGEST}, Unavailable),
        (200, {"digest": "latest", "manifest": {}}, Unavailable),
        (200, {"digest": DIGEST, "manifest": {"accelerator": "tpu"}}, Unavailable),
    ],
)
async def test_only_the_registrys_own_word_says_that_an_image_is_absent(
    outside: Outside, status: int, body: Any, error: type[Exception]
) -> None:
    outside.answer = (status, body, {})
    registry = Registry(outside.url)
    with pytest.raises(error):
        await registry.resolve("acme/model:1")
    await registry.close()


async def test_another_digest_than_asked_for_is_no_answer(outside: Outside) -> None:
    outside.answer = (200, {"digest": DIGEST, "manifest": {}}, {})
    registry = Registry(outside.url)
    with pytest.raises(Unavailable):
        await registry.resolve("acme/model@sha256:" + "cd" * 32)
    await registry.close()


async def test_a_malformed_reference_is_not_sent(outside: Outside) -> None:
    registry = Registry(outside.url)
    with pytest.raises(InvalidReference):
        await registry.resolve("Not A Reference")
    assert outside.seen == []
    await registry.close()
