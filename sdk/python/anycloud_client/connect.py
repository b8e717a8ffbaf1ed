# Generated from sdk/generator/python/connect.mustache.
"""The way in: `WorkloadsApi(connect(url, token)).list_workloads()`."""

from __future__ import annotations

from anycloud_client.api_client import ApiClient
from anycloud_client.configuration import Configuration


def connect(url: str, token: str) -> ApiClient:
    """A client of the API at `url`, for all the `…Api` classes.

    `token`: the local installation's, an `acapi_…` token, or a workload's where an operation asks for that. Operations
    raise ApiException; its `data` is an ApiError with the contract's `code`, or None if the answer wasn't the API's.
    """
    client = ApiClient(Configuration(host=url.rstrip("/").removesuffix("/v1"), access_token=token))
    client.set_default_header("AnyCloud-Client-Version", "0.1.70")
    return client
