"""AWS, GCP and Azure as far as the product buys from them: networks, addresses, machines, each in an account."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.kube.resources import timestamp
from anycloud_sandbox.state import Json, State
from anycloud_sandbox.world.ports import free_port, new_address

PROVIDERS = ("AWS", "GCP", "Azure")
BOOT_SECONDS, STOP_SECONDS = 0.5, 0.3
REVOKED = "revoked"


def account_of(provider: str, headers: Mapping[str, str]) -> str:
    """The account that a key belongs to; raises for keys that a cloud would refuse."""
    if provider not in PROVIDERS:
        raise WorldError("not_found", f"no provider {provider}")
    key, secret = headers.get("x-sandbox-key", ""), headers.get("x-sandbox-secret", "")
    if not key or not secret or secret == REVOKED:
        raise WorldError("auth", f"{provider} refused the credential")
    return key.split("." if provider == "AWS" else "/")[0]


class Clouds:
    """`on_machine` is called with each machine whose record changed."""

    def __init__(self, state: State, faults: Faults, delay: float, on_machine: Callable[[Json], None]) -> None:
        self._state, self._faults, self._delay, self._on_machine = state, faults, delay, on_machine
        self.networks = state.load("networks")
        self.addresses = state.load("addresses")
        self.machines = state.load("machines")
        self._tokens = {
            (kind, item["provider"], item["account"], item["token"]): item
            for kind, items in self._kinds().items()
            for item in items.values()
        }

    def resume(self) -> None:
        """Goes on with what was on its way when the sandbox was killed."""
        for machine in list(self.machines.values()):
            self._move_on(machine)

    def call(self, provider: str, action: str, account: str, body: Json) -> Json:
        return getattr(self, "_" + ACTIONS[action])(provider, account, body)  # type: ignore[no-any-return]

    def _kinds(self) -> dict[str, dict[str, Json]]:
        return {"networks": self.networks, "addresses": self.addresses, "machines": self.machines}

    def _identity(self, provider: str, account: str, body: Json) -> Json:
        return {"account": account}

    def _create_network(self, provider: str, account: str, body: Json) -> Json:
        fields = {"region": body["region"], "rules": body.get("rules", [])}
        return {"network": self._created("networks", provider, account, body, fields)}

    def _set_rules(self, provider: str, account: str, body: Json) -> Json:
        network = self._own("networks", provider, account, body["id"])
        network["rules"] = body["rules"]
        self._state.put("networks", network["id"], network)
        return {"network": network}

    def _delete_network(self, provider: str, account: str, body: Json) -> Json:
        network = self._own("networks", provider, account, body["id"])
        inside = [m["id"] for m in self.machines.values() if m["network"] == network["id"]]
        if any(self.machines[name]["state"] != "terminated" for name in inside):
            raise WorldError("conflict", f"network {network['id']} is used by {', '.join(inside)}")
        return self._dropped("networks", network)

    def _list_networks(self, provider: str, account: str, body: Json) -> Json:
        return {"networks": self._listed("networks", provider, account, body)}

    def _create_address(self, provider: str, account: str, body: Json) -> Json:
        fields = {"region": body["region"]}
        return {"address": self._created("addresses", provider, account, body, fields, lambda: {"ip": self._new_ip()})}

    def _delete_address(self, provider: str, account: str, body: Json) -> Json:
        address = self._own("addresses", provider, account, body["id"])
        held = [m["id"] for m in self.machines.values() if m["addressId"] == address["id"]]
        if any(self.machines[name]["state"] != "terminated" for name in held):
            raise WorldError("conflict", f"address {address['id']} is in use")
        return self._dropped("addresses", address)

    def _list_addresses(self, provider: str, account: str, body: Json) -> Json:
        return {"addresses": self._listed("addresses", provider, account, body)}

    def _create_machine(self, provider: str, account: str, body: Json) -> Json:
        names = ("region", "zone", "vmType", "image", "network", "userData")
        fields = {name: body.get(name) for name in names}
        fields["addressId"] = body.get("address")
        machine = self._created("machines", provider, account, body, fields, lambda: self._new_machine(provider, body))
        self._move_on(machine)
        return {"machine": _shown(machine)}

    def _new_machine(self, provider: str, body: Json) -> Json:
        if body.get("network") not in self.networks:
            raise WorldError("invalid", f"no network {body.get('network')}")
        if body.get("address") and body["address"] not in self.addresses:
            raise WorldError("invalid", f"no address {body['address']}")
        ip = self.addresses[body["address"]]["ip"] if body.get("address") else self._new_ip()
        fields = {"area": "machine", "provider": provider, "name": body["name"], "vmType": body.get("vmType")}
        stuck = [effect for effect in ("never-boots", "never-joins") if self._faults.take(effect, **fields)]
        port = free_port(ip)
        return {"state": "pending", "address": ip, "sshPort": port, "failure": None, "stuck": "".join(stuck[:1])}

    def _describe_machine(self, provider: str, account: str, body: Json) -> Json:
        if body.get("token"):
            found = self._tokens.get(("machines", provider, account, body["token"]))
            if found is None:
                raise WorldError("not_found", f"no machine was made with token {body['token']}")
            return {"machine": _shown(found)}
        return {"machine": _shown(self._own("machines", provider, account, body["id"]))}

    def _list_machines(self, provider: str, account: str, body: Json) -> Json:
        found = self._listed("machines", provider, account, body)
        return {"machines": [_shown(m) for m in found if body.get("region") in (None, m["region"])]}

    def _delete_machine(self, provider: str, account: str, body: Json) -> Json:
        machine = self._own("machines", provider, account, body["id"])
        if machine["state"] in ("pending", "running"):
            self._set_state(machine, "stopping")
            self._move_on(machine)
        return {"machine": _shown(machine)}

    def _move_on(self, machine: Json) -> None:
        """Lets a machine reach its next state after the time that this takes."""
        steps = {"pending": ("running", BOOT_SECONDS), "stopping": ("terminated", STOP_SECONDS)}
        before = machine["state"]
        if before not in steps or (before == "pending" and machine["stuck"] == "never-boots"):
            return
        state, seconds = steps[before]

        def arrive() -> None:
            if machine["state"] == before:
                self._set_state(machine, state)

        asyncio.get_running_loop().call_later(seconds * self._delay, arrive)

    def _set_state(self, machine: Json, state: str) -> None:
        machine["state"] = state
        self._state.put("machines", machine["id"], machine)
        self._on_machine(machine)

    def _new_ip(self) -> str:
        return new_address(
            {item["ip"] for item in self.addresses.values()} | {m["address"] for m in self.machines.values()}
        )

    def _created(
        self, kind: str, provider: str, account: str, body: Json, fields: Json, more: Callable[[], Json] = dict
    ) -> Json:
        """The item of this token: a new one, or the one that an earlier call with equal arguments made."""
        at = (kind, provider, account, body["token"])
        asked = {**fields, "name": body["name"], "tags": body.get("tags") or {}}
        found = self._tokens.get(at)
        if found:
            if found["asked"] != asked:
                raise WorldError("conflict", f"token {body['token']} was used with other arguments")
            return found
        prefix = {"networks": "net", "addresses": "ip", "machines": "vm"}[kind]
        item = {**asked, **more(), "id": f"{prefix}-{secrets.token_hex(8)}", "token": body["token"], "asked": asked}
        item |= {"provider": provider, "account": account, "createdAt": timestamp(time.time())}
        self._tokens[at] = self._kinds()[kind][item["id"]] = item
        self._state.put(kind, item["id"], item)
        return item

    def _own(self, kind: str, provider: str, account: str, item_id: str) -> Json:
        item = self._kinds()[kind].get(item_id)
        if item is None or (item["provider"], item["account"]) != (provider, account):
            raise WorldError("not_found", f"{provider} has no {kind} {item_id} in account {account}")
        return item

    def _listed(self, kind: str, provider: str, account: str, body: Json) -> list[Json]:
        tags = (body.get("tags") or {}).items()
        mine = [i for i in self._kinds()[kind].values() if (i["provider"], i["account"]) == (provider, account)]
        return [item for item in mine if all(item["tags"].get(name) == value for name, value in tags)]

    def _dropped(self, kind: str, item: Json) -> Json:
        del self._kinds()[kind][item["id"]]
        del self._tokens[(kind, item["provider"], item["account"], item["token"])]
        self._state.put(kind, item["id"], None)
        return {}


def _shown(machine: Json) -> Json:
    """A machine as its owner sees it: without the user data and what only the sandbox needs."""
    hidden = ("asked", "userData", "stuck", "addressId")
    return {name: value for name, value in machine.items() if name not in hidden}


ACTIONS = {
    "Identity": "identity",
    "CreateNetwork": "create_network",
    "SetRules": "set_rules",
    "DeleteNetwork": "delete_network",
    "ListNetworks": "list_networks",
    "CreateAddress": "create_address",
    "DeleteAddress": "delete_address",
    "ListAddresses": "list_addresses",
    "CreateMachine": "create_machine",
    "DescribeMachine": "describe_machine",
    "ListMachines": "list_machines",
    "DeleteMachine": "delete_machine",
}
