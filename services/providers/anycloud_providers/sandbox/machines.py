"""Machines of the sandbox's clouds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast, get_args

from anycloud_providers.protocol import Machine, MachineSpec, MachineState, ProviderError
from anycloud_providers.sandbox.calls import Calls, Json

_STATES = get_args(MachineState)


class SandboxMachines:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, spec: MachineSpec) -> Machine:
        body = {
            "token": spec.token,
            "name": spec.name,
            "region": spec.region,
            "zone": spec.zone,
            "vmType": spec.vm_type,
            "image": spec.image,
            "network": spec.network,
            "address": spec.address,
            "userData": spec.user_data,
            "tags": dict(spec.tags),
        }
        return await self._calls.call("cloud", "CreateMachine", body, _only)

    async def describe(self, machine_id: str) -> Machine:
        return await self._calls.call("cloud", "DescribeMachine", {"id": machine_id}, _only)

    async def find(self, token: str) -> Machine | None:
        try:
            return await self._calls.call("cloud", "DescribeMachine", {"token": token}, _only)
        except ProviderError as error:
            if error.kind == "not_found":
                return None
            raise

    async def list(self, tags: Mapping[str, str], region: str | None = None) -> Sequence[Machine]:
        body: Json = {"tags": dict(tags)} | ({"region": region} if region else {})
        return await self._calls.call(
            "cloud", "ListMachines", body, lambda answer: [_machine(item) for item in answer["machines"]]
        )

    async def delete(self, machine_id: str) -> None:
        await self._calls.delete("cloud", "DeleteMachine", {"id": machine_id})


def _only(answer: Json) -> Machine:
    return _machine(answer["machine"])


def _machine(item: Json) -> Machine:
    if item["state"] not in _STATES:
        raise ValueError(item["state"])
    return Machine(
        id=item["id"],
        token=item["token"],
        name=item["name"],
        state=cast(MachineState, item["state"]),
        region=item["region"],
        zone=item["zone"],
        vm_type=item["vmType"],
        image=item["image"],
        network=item["network"],
        tags=item["tags"],
        address=item["address"],
        ssh_port=item["sshPort"],
        created_at=item["createdAt"],
        failure=item["failure"],
    )
