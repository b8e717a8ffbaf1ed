"""What the document says beyond the shapes of bodies, and how it is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import openapi_spec_validator
import pytest
import yaml
from anycloud_common.rest import pages
from anycloud_common.rest.openapi import document
from anycloud_common.rest.openapi.messages import Messages
from anycloud_common.rest.openapi.values import Direction
from anycloudapi.cluster.v1 import access_pb2
from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf import descriptor_pb2

from tests.unit.openapi.documents import DOCUMENT, OPERATIONS, PRODUCT, ROOT, SHAPES, Operation, operation
from tests.unit.rest import shapes

of_the_product = pytest.mark.parametrize("found", [pytest.param(o, id=name) for name, o in PRODUCT.items()])


@pytest.mark.parametrize("said", [pytest.param(DOCUMENT, id="product"), pytest.param(SHAPES, id="shapes")])
def test_the_document_is_openapi(said: dict[str, Any]) -> None:
    openapi_spec_validator.validate(said)


def test_the_document_has_every_route_and_nothing_else() -> None:
    said = {(verb, path) for path, verbs in DOCUMENT["paths"].items() for verb in verbs}
    assert len(said) == len(PRODUCT) == 66


def test_every_component_is_used() -> None:
    text = (ROOT / "sdk" / "openapi.yaml").read_text()
    for kind in ("schemas", "parameters", "headers"):
        assert [name for name in DOCUMENT["components"][kind] if f"'#/components/{kind}/{name}'" not in text] == []


def headers(found: Operation) -> set[str]:
    given = [p["$ref"].rpartition("/")[2] for p in found.said.get("parameters", []) if "$ref" in p]
    return {DOCUMENT["components"]["parameters"][name]["name"] for name in given}


@of_the_product
def test_who_may_call_is_said_and_which_headers_that_takes(found: Operation) -> None:
    (scheme,) = (name for choice in found.said["security"] for name in choice)
    assert scheme in DOCUMENT["components"]["securitySchemes"]
    workload = found.binding.route.access == rest.ACCESS_WORKLOAD
    assert (scheme == "workloadBearer") == workload
    assert ("AnyCloud-Client-Version" in headers(found)) != workload


def test_a_claim_takes_an_idempotency_key_and_an_exchange_a_sign_in() -> None:
    assert headers(operation("DeploymentJobs/ClaimJob")) == {"idempotency-key"}
    assert operation("ApiTokens/ExchangeApiToken").said["security"] == [{"signInBearer": []}]


def test_operations_that_act_on_github_take_the_callers_sign_in_beside_the_bearer() -> None:
    taking = {name for name, found in PRODUCT.items() if "AnyCloud-GitHub-Token" in headers(found)}
    assert {name.rpartition("/")[2] for name in taking} == {
        "CreateCluster",
        "DestroyCluster",
        "ForgetCluster",
        "GrantUser",
    }
    assert DOCUMENT["components"]["parameters"]["GitHubToken"]["required"] is False


@of_the_product
def test_success_codes_are_those_of_the_codec(found: Operation) -> None:
    route = found.binding.route
    said = {int(status) for status in found.said["responses"] if status[0] == "2"}
    assert said == {route.success} | ({204} if route.no_content_when_unset else set())


@of_the_product
def test_pages_announce_the_headers_that_they_have(found: Operation) -> None:
    success = found.said["responses"][str(found.binding.route.success)]
    names = {name.lower() for name in success.get("headers", {})}
    assert names == ({pages.TOTAL, pages.LINK} if found.binding.route.paged else set())


def test_comments_become_descriptions_with_the_names_of_json() -> None:
    claim = operation("DeploymentJobs/GetCancellation").said["description"]
    assert claim == "Whether this execution was cancelled, held up to `waitMs`."
    fields = DOCUMENT["components"]["schemas"]["Admission"]["properties"]
    assert fields["submissionRevision"]["description"].startswith("Set for a Job that targets a Deployment")


def test_every_operation_and_group_of_operations_is_described() -> None:
    assert [name for name, found in PRODUCT.items() if not found.said.get("description")] == []
    assert [tag["name"] for tag in DOCUMENT["tags"] if not tag.get("description")] == []


def test_a_message_has_two_schemas_only_where_request_and_response_differ() -> None:
    names = SHAPES["components"]["schemas"]
    for name in names:
        for ending in ("Input", "Patch"):
            base = name.removesuffix(ending)
            assert base == name or base not in names or names[base] != names[name]
    assert "Account" in names
    assert any(name.endswith("Input") for name in names)


def test_paths_name_their_variables_as_parameters_do() -> None:
    for found in OPERATIONS.values():
        route = found.binding.route
        said = {p["name"] for p in found.said.get("parameters", []) if p.get("in") == "path"}
        assert said == {p.wire for p in route.params if p.in_path}


def test_the_same_protos_make_the_same_text(tmp_path: Path) -> None:
    api = tmp_path / "api.pb"
    api.write_bytes(access_descriptors())
    made = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.yaml"
        line = [sys.executable, "-m", "anycloud_common.rest.openapi", str(api), str(out), "1.0.0"]
        subprocess.run(line, check=True, env={"PYTHONHASHSEED": seed, "PATH": ""})
        made.append(out.read_bytes())
    assert made[0] == made[1]
    assert yaml.safe_load(made[0])["info"]["version"] == "1.0.0"


def access_descriptors() -> bytes:
    """Of one file of the product and all that it imports, without comments."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    _collect(access_pb2.DESCRIPTOR, files)
    return descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString()


def _collect(file: Any, files: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    if file.name in files:
        return
    for imported in file.dependencies:
        _collect(imported, files)
    files[file.name] = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(files[file.name])


def test_a_method_that_names_an_unknown_error_is_refused() -> None:
    with pytest.raises(ValueError, match="names an error that is not declared: THING_EXISTS"):
        document(shapes.FILES, "1.0.0")


def test_two_things_of_the_same_name_are_refused() -> None:
    messages = Messages({})
    messages.message(access_pb2.User.DESCRIPTOR, Direction.RESPONSE)
    with pytest.raises(ValueError, match=r"would have the same name in OpenAPI: User"):
        messages.put("User", {}, "other.v1.User")
