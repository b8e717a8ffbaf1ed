from __future__ import annotations

from typing import Any

import grpc
import orjson
import pytest
from anycloud_common import errors
from anycloud_common.errors import DECLARED, ApiError, Problem
from anycloudapi.common.v1 import errors_pb2
from anycloudapi.rest.v1 import options_pb2
from google.protobuf import message_factory
from google.rpc import error_details_pb2, status_pb2


def filled(code: str) -> Any:
    """Data of the type that the code demands."""
    name = DECLARED[code].data
    if not name:
        return None
    data: Any = message_factory.GetMessageClass(errors_pb2.DESCRIPTOR.pool.FindMessageTypeByName(name))(name="n")
    if "workload_ids" in data.DESCRIPTOR.fields_by_name:
        data.workload_ids.append("w-1")
    return data


@pytest.mark.parametrize("code", sorted(DECLARED))
def test_a_declared_error_survives_the_way_from_one_service_to_another(code: str) -> None:
    raised = ApiError(code, "because", filled(code))
    status = Problem.of(raised).to_status()
    metadata = grpc.aio.Metadata((errors.STATUS_DETAILS, status.SerializeToString()))
    caught = errors.from_rpc(grpc.aio.AioRpcError(grpc.StatusCode.UNKNOWN, None, metadata))
    assert caught is not None
    assert (caught.code, caught.message, caught.data) == (code, "because", raised.data)
    assert status.code == DECLARED[code].grpc != 0


@pytest.mark.parametrize("code", sorted(DECLARED))
def test_the_json_body_has_exactly_the_keys_of_the_contract(code: str) -> None:
    body = orjson.loads(Problem.of(ApiError(code, "because", filled(code))).to_json())
    expected = {"code": code, "defined": True, "message": "because", "status": DECLARED[code].http}
    assert {key: body[key] for key in expected} == expected
    assert set(body) - set(expected) == ({"data"} if DECLARED[code].data else set())


def test_data_has_its_json_names() -> None:
    error = ApiError("SECRET_IN_USE", "used", errors_pb2.SecretInUseData(name="s", workload_ids=["a"]))
    assert orjson.loads(Problem.of(error).to_json())["data"] == {"name": "s", "workloadIds": ["a"]}


def test_error_info_leads_the_details_and_names_code_domain_and_http_status() -> None:
    status = Problem.of(ApiError("CLUSTER_EXISTS", "there is one")).to_status()
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == ("CLUSTER_EXISTS", "anycloud.sh", {"httpStatus": "409"})


def test_violations_become_a_bad_request_detail() -> None:
    status = errors.invalid_request("a.b: must be text", (("a.b", "must be text"),)).to_status()
    bad = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(bad)
    assert [(v.field, v.description) for v in bad.field_violations] == [("a.b", "must be text")]


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("NO_SUCH_CODE", None),
        ("CREDENTIAL_IN_USE", None),
        ("CREDENTIAL_IN_USE", errors_pb2.CredentialErrorData(name="x")),
        ("CLUSTER_EXISTS", errors_pb2.CredentialErrorData(name="x")),
    ],
)
def test_an_error_that_the_enum_does_not_have_cannot_be_raised(code: str, data: Any) -> None:
    with pytest.raises(ValueError, match=code):
        ApiError(code, "x", data)


def test_a_failure_without_our_details_is_no_declared_error() -> None:
    foreign = status_pb2.Status(code=5)
    for metadata in (
        None,
        grpc.aio.Metadata(),
        grpc.aio.Metadata((errors.STATUS_DETAILS, foreign.SerializeToString())),
    ):
        assert errors.from_rpc(grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, None, metadata)) is None


def test_workload_methods_share_other_codes_than_user_methods() -> None:
    user = errors.common_codes(options_pb2.ACCESS_UNSPECIFIED)
    assert user == errors.common_codes(options_pb2.ACCESS_SIGN_IN)
    workload = errors.common_codes(options_pb2.ACCESS_WORKLOAD)
    assert user & workload == {"API_RESTARTING"}
    assert user | workload <= DECLARED.keys()
