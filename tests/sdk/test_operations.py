"""Every operation of the API is a method of each SDK, under the same name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from tests.sdk.building import SDK

DOCUMENT = yaml.safe_load((SDK / "openapi.yaml").read_text())
OPERATIONS = [
    (operation["tags"][0], operation["operationId"])
    for verbs in DOCUMENT["paths"].values()
    for operation in verbs.values()
]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def in_python() -> Iterator[tuple[str, str]]:
    for file in (SDK / "python" / "anycloud_client" / "api").glob("*_api.py"):
        (api,) = re.findall(r"^class (\w+)Api:", file.read_text(), re.MULTILINE)
        yield from ((api, name) for name in re.findall(r"^    def ([a-z]\w+)\(", file.read_text(), re.MULTILINE))


def in_typescript() -> Iterator[tuple[str, str]]:
    for file in (SDK / "typescript" / "src" / "apis").glob("*Api.ts"):
        api = file.name.removesuffix("Api.ts")
        yield from ((api, name) for name in re.findall(r"^    async (\w+)\(", file.read_text(), re.MULTILINE))


def in_go() -> Iterator[tuple[str, str]]:
    for file in (SDK / "go" / "anycloud").glob("api_*.go"):
        yield from re.findall(r"^func \(a \*(\w+)APIService\) (\w+)\(", file.read_text(), re.MULTILINE)


def in_grpc() -> Iterator[tuple[str, str]]:
    for file in (SDK / "go-grpc" / "anycloudapi").rglob("*_grpc.pb.go"):
        yield from re.findall(r"^func \(Unimplemented(\w+)Server\) (\w+)\(", file.read_text(), re.MULTILINE)


PYTHON, TYPESCRIPT, GO, GRPC = set(in_python()), set(in_typescript()), set(in_go()), set(in_grpc())


def test_there_are_operations() -> None:
    assert len(OPERATIONS) == len(set(OPERATIONS)) >= 65


@pytest.mark.parametrize(("api", "name"), OPERATIONS, ids=[name for _, name in OPERATIONS])
def test_an_operation_is_a_method_everywhere(api: str, name: str) -> None:
    upper = name[0].upper() + name[1:]
    assert (api, snake(name)) in PYTHON
    assert (api, name) in TYPESCRIPT
    assert (api, upper) in GO
    assert (api, upper) in GRPC


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("python/pyproject.toml", 'version = "{}"'),
        ("python/anycloud_client/connect.py", '"AnyCloud-Client-Version", "{}"'),
        ("typescript/package.json", '"version": "{}"'),
        ("typescript/package-lock.json", '"version": "{}"'),
        ("typescript/src/connect.ts", "'AnyCloud-Client-Version': '{}'"),
        ("go/anycloud/connect.go", '"AnyCloud-Client-Version", "{}"'),
        ("go-grpc/examples/list/main.go", 'const version = "{}"'),
    ],
)
def test_every_sdk_is_of_the_apis_version(file: str, said: str) -> None:
    assert said.format(DOCUMENT["info"]["version"]) in (SDK / file).read_text()


def test_locks_name_no_registry() -> None:
    locks = [SDK / "typescript" / "package-lock.json", SDK / "python" / "requirements.lock"]
    assert not [lock for lock in locks if "http" in lock.read_text()]


def test_there_is_nothing_internal_in_the_stubs() -> None:
    files = [f.as_posix() for f in (SDK / "go-grpc").rglob("*.go")]
    assert files
    assert not [f for f in files if "internal" in f]
