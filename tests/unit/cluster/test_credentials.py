"""Credentials: whose they are is asked of their cloud, they are stored sealed, and held ones keep their account."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_cluster.rpc.credentials import CredentialsServicer
from anycloud_cluster.rpc.policy import Policy
from anycloud_cluster.store import credentials
from anycloud_cluster.store.tables import PREFIX
from anycloud_common import holds
from anycloud_common.cipher import Cipher
from anycloud_common.errors import ApiError
from anycloud_common.rest import Invalid
from anycloud_common.store import Store
from anycloudapi.cluster.v1 import credentials_pb2
from anycloudapi.common.v1 import types_pb2

from tests.unit.cluster import fakes
from tests.unit.cluster.fakes import World


def aws(account: str = "acct", secret: str = "s3cret-key", **more: str) -> types_pb2.CloudCredential:
    key = types_pb2.CloudCredential.Aws(access_key_id=f"{account}.key", secret_access_key=secret, **more)
    return types_pb2.CloudCredential(aws=key)


class Api:
    def __init__(self, servicer: CredentialsServicer) -> None:
        self._servicer = servicer

    async def save(self, credential: types_pb2.CloudCredential, name: str = "aws", overwrite: bool = False) -> None:
        request = credentials_pb2.SaveCredentialRequest(name=name, overwrite=overwrite, credential=credential)
        await self._servicer.SaveCredential(request, None)

    async def update(self, name: str = "aws", **changes: Any) -> None:
        request = credentials_pb2.UpdateCredentialRequest(
            name=name, changes=credentials_pb2.CredentialChanges(**changes)
        )
        await self._servicer.UpdateCredential(request, None)

    async def delete(self, name: str = "aws", force: bool = False) -> None:
        await self._servicer.DeleteCredential(credentials_pb2.DeleteCredentialRequest(name=name, force=force), None)

    async def get(self, name: str = "aws") -> credentials_pb2.RedactedCredential:
        return await self._servicer.GetCredential(credentials_pb2.GetCredentialRequest(name=name), None)

    async def names(self) -> list[str]:
        answer = await self._servicer.ListCredentials(credentials_pb2.ListCredentialsRequest(), None)
        return [credential.name for credential in answer.credentials]


@pytest.fixture
def api(store: Store, cipher: Cipher, world: World) -> Api:
    return Api(CredentialsServicer(store, cipher, fakes.Clouds(world)))


async def hold(store: Store, owner: str = "np-1") -> None:
    found = await store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    parent = holds.Parent("credential", found.id)
    admission = holds.Admission(f"adm-{owner}", holds.Owner("node-pool", owner), (parent,))
    refusal = await store.write(lambda tx: holds.acquire(tx, PREFIX, Policy(), "nodepool", admission))
    assert refusal is None


async def refused(code: str, call: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    assert caught.value.code == code
    return caught.value


async def test_an_answer_shows_the_key_and_no_secret(api: Api) -> None:
    await api.save(aws(session_token="temporary"))
    shown = await api.get()
    assert shown.aws.access_key_id == "acct.key"
    assert not shown.HasField("auth_failed_at")
    assert "s3cret-key" not in str(shown)
    assert "temporary" not in str(shown)


async def test_it_is_stored_sealed_with_the_account_that_its_cloud_named(
    api: Api, store: Store, cipher: Cipher
) -> None:
    await api.save(aws())
    found = await store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    assert found.account == "acct"
    assert b"s3cret-key" not in found.sealed
    assert credentials.opened(cipher, found) == {
        "cloudProvider": "AWS",
        "accessKeyId": "acct.key",
        "secretAccessKey": "s3cret-key",
    }


async def test_what_the_cloud_doesnt_accept_isnt_stored(api: Api) -> None:
    with pytest.raises(Invalid, match="AWS doesn't accept this credential"):
        await api.save(aws(secret="revoked"))
    assert await api.names() == []


async def test_a_cloud_that_cant_be_asked_is_said_and_nothing_is_stored(api: Api, world: World) -> None:
    world.cloud.fail("identity", "unreachable")
    await refused("API_RESTARTING", api.save(aws()))
    assert await api.names() == []


async def test_a_provider_that_nobody_here_can_ask_is_refused_by_name(api: Api) -> None:
    lambda_labs = types_pb2.CloudCredential(lambda_labs=types_pb2.CloudCredential.Lambda(api_key="k"))
    with pytest.raises(Invalid, match="credentials of Lambda can't be checked by this release"):
        await api.save(lambda_labs)


@pytest.mark.parametrize("name", ["", "1st", "a b", "x" * 65])
@pytest.mark.req("OPEN-016")
async def test_names_follow_the_rule(api: Api, name: str) -> None:
    with pytest.raises(Invalid, match="name: Credential name"):
        await api.save(aws(), name=name)


async def test_a_taken_name_is_refused_unless_it_is_to_be_overwritten(api: Api) -> None:
    await api.save(aws())
    error = await refused("CREDENTIAL_NAME_EXISTS", api.save(aws("other")))
    assert error.data.name == "aws"  # type: ignore[union-attr]
    await api.save(aws("other"), overwrite=True)
    assert (await api.get()).aws.access_key_id == "other.key"


async def test_a_held_credential_takes_new_keys_of_its_account_and_no_other(api: Api, store: Store) -> None:
    await api.save(aws())
    await hold(store)
    await api.save(aws("acct", "newer"), overwrite=True)
    with pytest.raises(Invalid, match="in use by np-1"):
        await api.save(aws("other"), overwrite=True)
    error = await refused("CREDENTIAL_UPDATE_INVALID", api.update(access_key_id="other.key"))
    assert "need a credential of another name" in error.message
    await api.update(access_key_id="acct.second")
    assert (await api.get()).aws.access_key_id == "acct.second"


async def test_an_update_merges_and_drops_the_session_of_the_old_keys(api: Api, store: Store, cipher: Cipher) -> None:
    await api.save(aws(session_token="temporary"))
    await api.update(secret_access_key="newer")
    found = await store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    assert credentials.opened(cipher, found) == {
        "cloudProvider": "AWS",
        "accessKeyId": "acct.key",
        "secretAccessKey": "newer",
    }


async def test_an_update_names_fields_of_its_provider_only(api: Api) -> None:
    await api.save(aws())
    error = await refused("CREDENTIAL_UPDATE_INVALID", api.update(project_id="p"))
    assert error.message == "AWS credentials have no field projectId that can be changed."
    await refused("CREDENTIAL_NOT_FOUND", api.update("absent", project_id="p"))
    await api.update()  # nothing to change is no error


async def test_an_update_that_lost_a_race_is_refused(api: Api, store: Store) -> None:
    await api.save(aws())
    found = await store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    await store.write(lambda tx: credentials.replace(tx, found, {**fakes.AWS}, "acct", found.sealed))
    late = store.write(lambda tx: api._servicer._update(tx, found, {**fakes.AWS}, "acct"))
    await refused("CREDENTIAL_CHANGED", late)


async def test_a_credential_in_use_is_deleted_by_force_only_and_the_refusal_names_who_holds_it(
    api: Api, store: Store
) -> None:
    await api.save(aws())
    await hold(store, "np-2")
    await hold(store, "np-1")
    error = await refused("CREDENTIAL_IN_USE", api.delete())
    assert list(error.data.workload_ids) == ["np-1", "np-2"]  # type: ignore[union-attr]
    await api.delete(force=True)
    await api.delete()  # what isn't there is deleted
    assert await api.names() == []


async def test_a_refusal_by_the_cloud_shows_until_the_keys_are_replaced(api: Api, store: Store) -> None:
    await api.save(aws())
    found = await store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    await store.write(lambda tx: credentials.auth_failed(tx, found))
    assert (await api.get()).HasField("auth_failed_at")
    await api.update(secret_access_key="newer")
    assert not (await api.get()).HasField("auth_failed_at")
    await store.write(lambda tx: credentials.auth_failed(tx, found))  # of the old keys, and late
    assert not (await api.get()).HasField("auth_failed_at")
