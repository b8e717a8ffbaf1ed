"""Networks and addresses of the sandbox's clouds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anycloud_providers.protocol import Address, AddressSpec, Network, NetworkSpec, Rule
from anycloud_providers.sandbox.calls import Calls, Json


class SandboxNetworks:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, spec: NetworkSpec) -> Network:
        body = _common(spec) | {"rules": [_rule_json(rule) for rule in spec.rules]}
        return await self._calls.call("cloud", "CreateNetwork", body, lambda answer: _network(answer["network"]))

    async def set_rules(self, network_id: str, rules: Sequence[Rule]) -> Network:
        body = {"id": network_id, "rules": [_rule_json(rule) for rule in rules]}
        return await self._calls.call("cloud", "SetRules", body, lambda answer: _network(answer["network"]))

    async def delete(self, network_id: str) -> None:
        await self._calls.delete("cloud", "DeleteNetwork", {"id": network_id})

    async def list(self, tags: Mapping[str, str]) -> Sequence[Network]:
        body = {"tags": dict(tags)}
        return await self._calls.call(
            "cloud", "ListNetworks", body, lambda answer: [_network(item) for item in answer["networks"]]
        )


class SandboxAddresses:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, spec: AddressSpec) -> Address:
        return await self._calls.call(
            "cloud", "CreateAddress", _common(spec), lambda answer: _address(answer["address"])
        )

    async def delete(self, address_id: str) -> None:
        await self._calls.delete("cloud", "DeleteAddress", {"id": address_id})

    async def list(self, tags: Mapping[str, str]) -> Sequence[Address]:
        body = {"tags": dict(tags)}
        return await self._calls.call(
            "cloud", "ListAddresses", body, lambda answer: [_address(item) for item in answer["addresses"]]
        )


def _common(spec: NetworkSpec | AddressSpec) -> Json:
    return {"token": spec.token, "name": spec.name, "region": spec.region, "tags": dict(spec.tags)}


def _rule_json(rule: Rule) -> Json:
    return {"protocol": rule.protocol, "ports": list(rule.ports), "sources": list(rule.sources)}


def _network(item: Json) -> Network:
    return Network(
        id=item["id"],
        token=item["token"],
        name=item["name"],
        region=item["region"],
        tags=item["tags"],
        rules=tuple(Rule(tuple(rule["ports"]), tuple(rule["sources"]), rule["protocol"]) for rule in item["rules"]),
    )


def _address(item: Json) -> Address:
    return Address(
        id=item["id"],
        token=item["token"],
        name=item["name"],
        region=item["region"],
        tags=item["tags"],
        ip=item["ip"],
    )
