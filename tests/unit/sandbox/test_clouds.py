"""Clouds, buckets, DNS, GitHub and the registry: what can be repeated, refused and injected."""

from __future__ import annotations

import base64
import urllib.error

import pytest
from anycloud_control_plane.certificates import new_key, request_pem
from cryptography import x509

from tests.support.sandbox import KEYS, Refused, Sandbox

DEMO = {"Authorization": "Bearer ghs_sandbox_demo"}


def refused(kind: str) -> pytest.RaisesExc[Refused]:
    return pytest.RaisesExc(Refused, check=lambda error: error.kind == kind)


async def gone(sandbox: Sandbox, machine_id: str) -> None:
    sandbox.cloud("DeleteMachine", {"id": machine_id})
    await sandbox.until(lambda: state(sandbox, machine_id) == "terminated")


def state(sandbox: Sandbox, machine_id: str) -> str:
    return str(sandbox.cloud("DescribeMachine", {"id": machine_id})["machine"]["state"])


def test_a_repeated_token_gives_the_same_machine_and_refuses_another_one(sandbox: Sandbox) -> None:
    network = sandbox.network()
    body = {"token": sandbox.token(), "name": "vm", "region": "eu-west-1", "network": network["id"], "tags": {"a": "b"}}
    first = sandbox.cloud("CreateMachine", body)["machine"]
    assert sandbox.cloud("CreateMachine", body)["machine"]["id"] == first["id"]
    with refused("conflict"):
        sandbox.cloud("CreateMachine", {**body, "vmType": "other"})
    other = {"x-sandbox-key": "other.key"}
    with refused("invalid"):  # another account has neither the token nor the network
        sandbox.cloud("CreateMachine", body, headers=other)
    with refused("not_found"):
        sandbox.cloud("DescribeMachine", {"id": first["id"]}, headers=other)


async def test_a_terminated_machine_stays_visible_and_frees_its_network(sandbox: Sandbox) -> None:
    network = sandbox.network()
    machine = sandbox.machine(network, "vm", "", tags={"pool": "x"})
    assert machine["state"] == "pending"
    assert machine["address"].startswith("127.")
    with refused("conflict"):
        sandbox.cloud("DeleteNetwork", {"id": network["id"]})
    await gone(sandbox, machine["id"])
    assert sandbox.cloud("DeleteMachine", {"id": machine["id"]})["machine"]["state"] == "terminated"
    found = sandbox.cloud("ListMachines", {"tags": {"pool": "x"}})["machines"]
    assert [item["id"] for item in found] == [machine["id"]]
    assert "userData" not in found[0]
    sandbox.cloud("DeleteNetwork", {"id": network["id"]})
    with refused("not_found"):
        sandbox.cloud("DeleteNetwork", {"id": network["id"]})


def test_a_key_names_its_account_and_a_revoked_one_is_refused(sandbox: Sandbox) -> None:
    assert sandbox.cloud("Identity", {})["account"] == "account"
    google = {"x-sandbox-key": "project/robot@project"}
    assert sandbox.cloud("Identity", {}, "GCP", google)["account"] == "project"
    with refused("auth"):
        sandbox.cloud("Identity", {}, headers={"x-sandbox-secret": "revoked"})


@pytest.mark.parametrize("kind", ["capacity", "quota", "throttled", "unreachable"])
def test_an_injected_error_has_its_class_and_ends(sandbox: Sandbox, kind: str) -> None:
    sandbox.fault(kind, times=1, area="cloud", action="CreateNetwork", region="us-*")
    with refused(kind):
        sandbox.network()
    assert sandbox.network()


def test_a_lost_answer_has_done_its_work(sandbox: Sandbox) -> None:
    sandbox.fault("lost", times=1, area="cloud", action="CreateNetwork")
    body = {"token": sandbox.token(), "name": "lost", "region": "r", "rules": [], "tags": {"lost": "yes"}}
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        sandbox.cloud("CreateNetwork", body)
    assert len(sandbox.cloud("ListNetworks", {"tags": {"lost": "yes"}})["networks"]) == 1


async def test_a_machine_that_never_boots_stays_pending_and_can_be_deleted(sandbox: Sandbox) -> None:
    sandbox.fault("never-boots", times=1, name="stuck")
    machine = sandbox.machine(sandbox.network(), "stuck", "")
    other = sandbox.machine(sandbox.network(), "fine", "")
    await sandbox.until(lambda: state(sandbox, other["id"]) == "running")
    assert state(sandbox, machine["id"]) == "pending"
    await gone(sandbox, machine["id"])


def test_an_unknown_fault_is_refused(sandbox: Sandbox) -> None:
    with refused("invalid"):
        sandbox.fault("earthquake")
    with refused("not_found"):
        sandbox.call("DELETE", "/faults/none")


def test_a_bucket_keeps_versions_and_refuses_lost_races(sandbox: Sandbox) -> None:
    def objects(action: str, **body: object) -> dict[str, object]:
        return sandbox.call("POST", f"/objects/AWS/{action}", body, KEYS)

    objects("CreateBucket", name="b", region="r", tags={})
    objects("SetVersioning", name="b", enabled=True)
    data = [base64.b64encode(text).decode() for text in (b"one", b"two")]
    first = objects("PutObject", bucket="b", key="k", data=data[0], ifNoneMatch="*")
    with refused("conflict"):
        objects("PutObject", bucket="b", key="k", data=data[1], ifNoneMatch="*")
    objects("PutObject", bucket="b", key="k", data=data[1], ifMatch=first["etag"])
    with refused("conflict"):
        objects("PutObject", bucket="b", key="k", data=data[1], ifMatch=first["etag"])
    assert objects("GetObject", bucket="b", key="k")["data"] == data[1]
    assert objects("GetObject", bucket="b", key="k", version=first["version"])["data"] == data[0]
    with refused("conflict"):
        objects("DeleteBucket", name="b")
    versions = objects("ListVersions", bucket="b", prefix="")["versions"]
    assert isinstance(versions, list)
    for item in versions:
        objects("DeleteVersion", bucket="b", key="k", version=item["version"])
    objects("DeleteBucket", name="b")
    with refused("not_found"):
        objects("HeadBucket", name="b")


def test_a_record_keeps_its_url_and_its_owner(sandbox: Sandbox) -> None:
    first = sandbox.call("PUT", "/dns/records/cl-1", {"address": "127.1.2.3", "proxied": True}, DEMO)["record"]
    again = sandbox.call("PUT", "/dns/records/cl-1", {"address": "127.1.2.4", "proxied": True}, DEMO)["record"]
    assert first["url"] == again["url"]
    assert first["url"].startswith("http://127.0.0.2:")
    with pytest.raises(Refused) as other:
        sandbox.call("GET", "/dns/records/cl-1", None, {"Authorization": "Bearer ghs_sandbox_other"})
    assert other.value.status == 403
    with pytest.raises(Refused) as nobody:
        sandbox.call("GET", "/dns/records/cl-1", None, {"Authorization": "Bearer gho_x"})
    assert nobody.value.status == 401
    request = request_pem(new_key(), "cl-1.anycloud.sh", "")
    signed = sandbox.call("POST", "/dns/certificates", {"name": "cl-1", "csr": request}, DEMO)
    assert x509.load_pem_x509_certificate(signed["certificate"].encode())
    sandbox.call("DELETE", f"/dns/certificates/{signed['id']}", None, DEMO)
    sandbox.call("DELETE", "/dns/records/cl-1", None, DEMO)
    with refused("not_found"):
        sandbox.call("GET", "/dns/records/cl-1", None, DEMO)


def test_github_knows_a_login_until_it_is_refused(sandbox: Sandbox) -> None:
    user = sandbox.call("GET", "/github/user", None, DEMO)
    assert user["login"] == "demo"
    assert isinstance(user["id"], int)
    fault = sandbox.fault("refused", login="demo")
    with refused("auth"):
        sandbox.call("GET", "/github/user", None, DEMO)
    sandbox.call("DELETE", f"/faults/{fault}")
    assert sandbox.call("GET", "/github/user", None, DEMO)["id"] == user["id"]


def test_a_pushed_tag_moves_and_a_digest_does_not(sandbox: Sandbox) -> None:
    first = sandbox.image("test/image:1", ["one"])
    second = sandbox.image("test/image:1", ["two"])
    assert first != second

    def digest(reference: str) -> object:
        return sandbox.call("GET", f"/registry/images?reference={reference}")["digest"]

    assert digest("test/image:1") == second
    assert digest(f"test/image@{first}") == first
    with refused("not_found"):
        digest("test/none")
    with refused("invalid"):
        digest("Upper_Case")
