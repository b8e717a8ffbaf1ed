"""`POST /v1/system-release`: which images are refused, and what is said about the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_common import registry
from anycloud_common.clock import ManualClock
from anycloud_common.errors import ApiError, NotAvailable
from anycloud_common.registry import Image, Reference
from anycloud_common.release_values import ApiValues
from anycloud_common.rest import Codec
from anycloud_common.store import Store
from anycloud_release.domain.ports import ImageMissing, Images, ImagesUnknown, PublishedImage
from anycloud_release.gateways.images import NoRegistry, RegistryImages
from anycloud_release.gateways.rollouts import NoRollouts
from anycloud_release.migrate import migrate_service
from anycloud_release.rpc.system_release import SystemReleaseServicer
from anycloud_release.rpc.targets import Targets
from anycloud_release.store import revisions
from anycloud_release.store.tables import REVISION, STAMP
from anycloudapi.release.v1 import release_pb2
from sqlalchemy import insert, select

API = "ghcr.io/anycloud-sh/api"
OLD, NOW, NEW = ("sha256:" + digit * 64 for digit in "012")
RUNNING = f"{API}:0.1.70@{NOW}"


class Published:
    """Tags and digests that the registry has."""

    def __init__(self) -> None:
        self.images = {"0.1.69": PublishedImage(OLD, None), "0.1.70": PublishedImage(NOW, "0.1.70")}
        self.images |= {"0.1.71": PublishedImage(NEW, "0.1.71"), "latest": PublishedImage(NEW, "0.1.71")}
        self.images |= {"edge": PublishedImage(OLD, None), NEW: PublishedImage(NEW, "0.1.71")}
        self.away = False

    async def published(self, named: Reference) -> PublishedImage | None:
        if self.away:
            raise ImagesUnknown("no answer in time")
        found = self.images.get(named.digest or named.tag or "latest")
        if found is None:
            raise ImageMissing
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "release.sqlite"
    migrate_service(path, "release")
    store = Store.open(path, "release", ManualClock(1_000))
    yield store
    store.close()


@pytest.fixture
async def served(store: Store) -> Store:
    """A hosted API of 0.1.70."""
    installed = ApiValues(RUNNING, "0.1.70", "0.1.70", 1, "http://127.0.0.2:9000")
    await store.write(lambda tx: revisions.record_installed(tx, installed))
    await store.write(lambda tx: tx.conn.execute(insert(STAMP).values(version="0.1.70", schema_version=1)))
    return store


async def ask(store: Store, image: str, images: Images | None = None) -> Any:
    servicer = SystemReleaseServicer(store, NoRollouts(), "0.1.70", Targets(store, images or Published(), RUNNING))
    target = release_pb2.ReleaseTarget(image=image)
    answer = await servicer.RequestSystemRelease(release_pb2.RequestSystemReleaseRequest(target=target), None)
    return Codec().json(answer)


async def refused(store: Store, image: str, images: Images | None = None) -> str:
    with pytest.raises(ApiError) as caught:
        await ask(store, image, images)
    assert caught.value.code == "SYSTEM_RELEASE_REFUSED"
    assert len(await store.read(lambda conn: conn.execute(select(REVISION)).all())) == 1
    return caught.value.message


@pytest.mark.req("BK-023")
@pytest.mark.parametrize(
    "image",
    [
        "nginx",
        "ghcr.io/anycloud-sh/api2:0.1.71",
        "ghcr.io/anycloud-sh/api/x:0.1.71",
        "ghcr.io.example/anycloud-sh/api:0.1.71",
        "docker.io/anycloud-sh/api:0.1.71",
        "anycloud-sh/api:0.1.71",
        f"ghcr.io/other/api@{NOW}",
        "no reference at all",
    ],
)
async def test_only_the_published_api_image_is_taken(served: Store, image: str) -> None:
    message = await refused(served, image)
    assert image in message
    assert API in message


@pytest.mark.req("BK-022")
@pytest.mark.parametrize("image", [f"{API}:0.2.0", f"{API}:0.2.0@{'sha256:' + '9' * 64}"])
async def test_a_version_without_a_published_digest_is_refused_by_name(served: Store, image: str) -> None:
    message = await refused(served, image)
    assert "0.2.0 isn't published" in message
    assert image in message


async def test_a_digest_that_nobody_published_is_refused(served: Store) -> None:
    assert "isn't published" in await refused(served, f"{API}@sha256:{'9' * 64}")


@pytest.mark.req("BK-024")
@pytest.mark.parametrize("image", [f"{API}:0.1.69", f"{API}:0.1.69@{OLD}"])
@pytest.mark.parametrize("images", [Published(), NoRegistry()])
async def test_a_version_below_the_one_that_used_the_database_is_refused(
    served: Store, image: str, images: Images
) -> None:
    if isinstance(images, Published):
        images.images[OLD] = PublishedImage(OLD, "0.1.69")
    message = await refused(served, image, images)
    assert "0.1.69 is older than 0.1.70" in message


async def test_versions_are_compared_as_numbers(served: Store) -> None:
    images = Published()
    images.images["0.1.100"] = PublishedImage(NEW, None)
    images.images["0.1.8"] = PublishedImage(OLD, None)
    await refused(served, f"{API}:0.1.8", images)
    with pytest.raises(NotAvailable, match=r"0\.1\.100"):
        await ask(served, f"{API}:0.1.100", images)


async def test_an_image_that_names_no_version_is_refused(served: Store) -> None:
    assert "names no version" in await refused(served, f"{API}:edge")
    assert "names no version" in await refused(served, API, NoRegistry())


@pytest.mark.parametrize("image", [RUNNING, f"{API}@{NOW}", f"{API}:0.1.70"])
async def test_the_image_that_runs_changes_nothing(served: Store, image: str) -> None:
    for _ in range(2):
        assert await ask(served, image) == b'{"unchanged":true,"upgrade":null}'
    newest = await served.read(revisions.newest)
    assert newest is not None
    assert newest.number == 1


async def test_what_runs_is_known_without_a_registry(served: Store) -> None:
    assert await ask(served, RUNNING, NoRegistry()) == b'{"unchanged":true,"upgrade":null}'


@pytest.mark.parametrize("image", [f"{API}:0.1.71", f"{API}:0.1.71@{NEW}", f"{API}:latest", API])
async def test_an_upgrade_that_the_rules_allow_is_not_available(served: Store, image: str) -> None:
    with pytest.raises(NotAvailable, match=r"0\.1\.71"):
        await ask(served, image)


async def test_a_registry_that_is_away_is_the_declared_503(served: Store) -> None:
    images = Published()
    images.away = True
    with pytest.raises(ApiError) as caught:
        await ask(served, f"{API}:0.1.71", images)
    assert caught.value.code == "SYSTEM_RELEASE_UNAVAILABLE"


async def test_an_installer_refuses_and_names_the_way_to_the_hosted_api(store: Store) -> None:
    servicer = SystemReleaseServicer(store, NoRollouts(), "0.1.70", None)
    request = release_pb2.RequestSystemReleaseRequest(target=release_pb2.ReleaseTarget(image=f"{API}:0.1.71"))
    with pytest.raises(ApiError, match="anycloud api use") as caught:
        await servicer.RequestSystemRelease(request, None)
    assert caught.value.code == "SYSTEM_RELEASE_REFUSED"


class Source:
    """A registry client that gives or raises one thing."""

    def __init__(self, made: Image | Exception) -> None:
        self.made = made
        self.asked: list[str] = []

    async def resolve(self, reference: str) -> Image:
        self.asked.append(reference)
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


async def test_the_registry_is_asked_for_tag_and_digest() -> None:
    source: Any = Source(Image(API, NEW, "none", {}, (), {"sh.anycloud.api.version": "0.1.71"}))
    for image in (f"{API}:0.1.71@{NEW}", f"{API}:0.1.71", f"{API}@{NEW}", API):
        assert await RegistryImages(source).published(registry.parse(image)) == PublishedImage(NEW, "0.1.71")
        assert source.asked.pop() == image


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(registry.NotFound("none"), ImageMissing), (registry.Unavailable("away"), ImagesUnknown)],
)
async def test_missing_and_unknown_are_told_apart(answer: Exception, expected: type[Exception]) -> None:
    source: Any = Source(answer)
    with pytest.raises(expected):
        await RegistryImages(source).published(registry.parse(API))
