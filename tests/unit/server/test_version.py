from __future__ import annotations

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.server import version

API = "0.1.70"


@pytest.mark.req("CLI-002")
@pytest.mark.parametrize(
    "client", ["0.1.69", "0.1.71", "0.2.70", "1.1.70", "0.1", "0.1.70 ", "v0.1.70", "", "anything"]
)
def test_every_version_but_the_apis_own_is_refused_and_both_are_named(client: str) -> None:
    with pytest.raises(ApiError) as refused:
        version.check(client, API, neighbour=False, rest=True)
    assert refused.value.code == "CLIENT_VERSION_MISMATCH"
    assert API in refused.value.message
    assert client in refused.value.message


@pytest.mark.req("CLI-002")
@pytest.mark.parametrize("rest", [True, False])
def test_the_same_version_is_served(rest: bool) -> None:
    version.check(API, API, neighbour=False, rest=rest)


@pytest.mark.parametrize("client", ["0.0.3", "0.2.0", "0.1.9", "0.1.70"])
def test_a_neighbour_is_one_minor_release_away_at_most(client: str) -> None:
    version.check(client, API, neighbour=True, rest=True)


@pytest.mark.parametrize("client", ["0.3.0", "1.1.70", "1.0.70", "0.x.1", None])
def test_what_is_further_away_is_no_neighbour(client: str | None) -> None:
    with pytest.raises(ApiError, match="CLIENT_VERSION_MISMATCH"):
        version.check(client, API, neighbour=True, rest=True)


def test_http_callers_say_their_version_and_grpc_callers_may_leave_it_out() -> None:
    version.check(None, API, neighbour=False, rest=False)
    with pytest.raises(ApiError, match="CLIENT_VERSION_MISMATCH"):
        version.check(None, API, neighbour=False, rest=True)


def test_a_grpc_caller_that_says_another_version_is_refused() -> None:
    with pytest.raises(ApiError, match="CLIENT_VERSION_MISMATCH"):
        version.check("0.1.71", API, neighbour=False, rest=False)
