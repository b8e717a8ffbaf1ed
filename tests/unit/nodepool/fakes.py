"""The world outside of nodepool, in memory: a ledger whose VMs boot and join by themselves, and their cluster.

Every call goes into `calls`. A test may forbid some (`refuse`), or have the process die at one (`kill_at`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anycloud_common.clock import ManualClock
from anycloud_common.kube import KINDS, Foreign, KubeError, names
from anycloud_common.kube.names import ANNOTATION_INTENT
from anycloud_nodepool.domain import join, naming
from anycloud_nodepool.domain.model import ClusterFact, CredentialFact, NodeFact, ResourceFact, ResourceState
from anycloud_nodepool.domain.ports import (
    ClusterUnavailable,
    LedgerRefused,
    MachineOrder,
    NetworkOrder,
    Object,
)

CLUSTER = ClusterFact("cl-1", "main", "running", True, "uid-1", "https://10.0.0.1:6443", "PEM\n")
CREDENTIALS = {
    provider.lower(): CredentialFact(f"cred-{provider.lower()}", provider.lower(), provider)
    for provider in ("AWS", "GCP", "Azure", "Lambda", "Cloudflare")
}


class Killed(BaseException):
    """Stands for a kill -9 at this call."""


@dataclass(frozen=True)
class Order:
    machine: MachineOrder
    config: Mapping[str, Any]


class World:
    """All ports at once. `booting`: VMs come up by themselves; `joining`: and become Nodes; `gpus`: with so many
    devices; `ready`: and become Ready; `ending`: releases are confirmed."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.calls: list[str] = []
        self.refusals: dict[str, Exception] = {}
        self.kill_at: int | None = None
        self.booting = self.joining = self.ready = self.ending = True
        self.gpus = 0
        self.synced = True
        self.problem_list: list[str] = []
        self.cluster: ClusterFact | None = CLUSTER
        self.resource_facts: dict[str, ResourceFact] = {}
        self.pool_of: dict[str, str] = {}
        self.orders: dict[str, MachineOrder] = {}
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.node_facts: dict[str, NodeFact] = {}
        self.most_machines: dict[str, int] = {}
        self._uids = itertools.count(1)
        self._passwords = 0

    # What tests do

    def refuse(self, call: str, error: Exception) -> None:
        """Every call that begins with this text fails."""
        self.refusals[call] = error

    def allow(self) -> None:
        self.refusals.clear()

    def settle(self) -> bool:
        """Lets the world go on by itself by one step; False when nothing happens any more."""
        before = (dict(self.resource_facts), dict(self.node_facts))
        for token, fact in list(self.resource_facts.items()):
            if fact.state is ResourceState.PENDING and self.booting:
                self.turn(token, ResourceState.RUNNING, created_at=self.clock.now_ms(), address=f"ip-{token}")
            elif fact.state is ResourceState.RUNNING and token in self.orders and self.joining:
                self._join(self.orders[token])
            elif fact.state is ResourceState.RELEASING and self.ending:
                self.turn(token, ResourceState.RELEASED)
        return before != (self.resource_facts, self.node_facts)

    def turn(self, token: str, state: ResourceState, **values: Any) -> None:
        """The ledger learns something."""
        fact = self.resource_facts[token]
        self.resource_facts[token] = replace(fact, state=state, version=fact.version + 1, **values)

    def set_node(self, name: str, **values: Any) -> None:
        self.node_facts[name] = replace(self.node_facts[name], **values)

    def add_node(self, name: str, labels: Mapping[str, str], *, ready: bool = True) -> None:
        self.node_facts[name] = NodeFact(name, self._uid(), labels, ready, gpus=self.gpus)

    def machines(self, *states: ResourceState) -> list[str]:
        """Tokens of VMs in these states; without any: of VMs that may exist."""
        wanted = states or (ResourceState.PENDING, ResourceState.RUNNING, ResourceState.RELEASING)
        return [token for token in self.orders if self.resource_facts[token].state in wanted]

    def named(self, kind: str) -> list[str]:
        return [name for found, _, name in self.objects if found == kind]

    def tokens(self) -> list[str]:
        """Names of bootstrap tokens."""
        return [name for name in self.named("Secret") if name.startswith("bootstrap-token-")]

    def count(self, call: str) -> int:
        return sum(made.startswith(call) for made in self.calls)

    # Ledger

    async def machine(self, order: MachineOrder) -> ResourceFact:
        self._call(f"machine {order.token}")
        fact = self._released_or(order.token)
        if fact is None:
            assert self.resource_facts[order.network_token].state is ResourceState.RUNNING
            self.orders[order.token] = order
            fact = self._made(order.token, order.pool_id)
        assert self.orders[order.token] == order, "another request under the same token"
        self._after(f"machine {order.token}")
        return fact

    async def network(self, order: NetworkOrder) -> ResourceFact:
        self._call(f"network {order.token}")
        fact = self._released_or(order.token)
        if fact is None:
            fact = self._made(order.token, order.pool_id)
        elif fact.state is ResourceState.FAILED and order.attempt > fact.attempt:
            self.turn(order.token, ResourceState.PENDING, attempt=order.attempt, failure=None)
        self._after(f"network {order.token}")
        return self.resource_facts[order.token]

    async def release(self, token: str) -> ResourceFact:
        self._call(f"release {token}")
        fact = self.resource_facts.get(token)
        if fact is None or fact.state is ResourceState.FAILED:
            self.resource_facts[token] = ResourceFact(token, ResourceState.RELEASED, version=1)
        elif fact.state is not ResourceState.RELEASED:
            self.turn(token, ResourceState.RELEASING)
        self._after(f"release {token}")
        return self.resource_facts[token]

    async def resources(self, pool_id: str) -> Sequence[ResourceFact]:
        self._call(f"resources {pool_id}")
        return [fact for token, fact in self.resource_facts.items() if self.pool_of.get(token) == pool_id]

    # Clusters

    async def find(self, id_or_name: str) -> ClusterFact | None:
        self._call("find cluster")
        known = self.cluster
        return known if known and id_or_name in ("", known.id, known.name) else None

    async def credential(self, name: str) -> CredentialFact | None:
        return CREDENTIALS.get(name)

    # View

    def nodes(self, pool_id: str) -> Sequence[NodeFact]:
        return [
            node
            for node in self.node_facts.values()
            if node.labels.get(names.LABEL_NODE_POOL) == pool_id or naming.pool_of_node(node.name) == pool_id
        ]

    def policy(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(("NetworkPolicy", namespace, name))

    # Kubernetes

    async def problems(self, identity: str) -> Sequence[str]:
        self._call("problems")
        return list(self.problem_list)

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        self._call(f"get {kind} {name}")
        return self.objects.get((kind, namespace or "", name))

    async def names(self, kind: str, namespace: str) -> Mapping[str, str]:
        self._call(f"names {kind}")
        return {
            name: obj["metadata"]["uid"]
            for (found, ns, name), obj in self.objects.items()
            if found == kind and ns == namespace
        }

    async def create(self, kind: str, body: Object) -> Object:
        self._call(f"create {kind} {body['metadata']['name']}")
        key = (kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if key in self.objects:
            raise KubeError("conflict", f"{kind} {key[2]} exists", 409)
        self.objects[key] = made = {**body, "metadata": {**body["metadata"], "uid": self._uid()}}
        self._after(f"create {kind} {body['metadata']['name']}")
        return made

    async def ensure(self, kind: str, body: Object, owner: Mapping[str, str]) -> Object:
        wanted = body["metadata"]
        existing = self.objects.get((kind, wanted.get("namespace", ""), wanted["name"]))
        if existing is None:
            return await self.create(kind, body)
        metadata = existing["metadata"]
        same_intent = (metadata.get("annotations") or {}).get(ANNOTATION_INTENT) == wanted["annotations"][
            ANNOTATION_INTENT
        ]
        if not (owner.items() <= (metadata.get("labels") or {}).items() and same_intent):
            raise Foreign(kind, wanted.get("namespace"), wanted["name"])
        return existing

    async def apply(self, kind: str, body: Object) -> Object:
        self._call(f"apply {kind} {body['metadata']['name']}")
        key = (kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if key not in self.objects or self.objects[key]["metadata"]["uid"] != body["metadata"]["uid"]:
            raise KubeError("conflict", "another object", 409)
        self.objects[key] = body
        return body

    async def patch(self, kind: str, name: str, uid: str, change: Object) -> None:
        self._call(f"patch {kind} {name}")
        node = self.node_facts[name]
        labels = {**node.labels, **change.get("metadata", {}).get("labels", {})}
        self.set_node(name, labels=labels, cordoned=change.get("spec", {}).get("unschedulable", node.cordoned))

    async def delete(self, kind: str, name: str, namespace: str | None, uid: str) -> bool:
        self._call(f"delete {kind} {name}")
        if kind == "Node":
            if name in self.node_facts and self.node_facts[name].uid == uid:
                del self.node_facts[name]
        else:
            self._delete(kind, namespace or "", name, uid)
        self._after(f"delete {kind} {name}")
        return False

    # What none of the ports shows

    def _delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        obj = self.objects.get((kind, namespace, name))
        if obj is None or obj["metadata"]["uid"] != uid:
            return
        del self.objects[kind, namespace, name]
        if kind == "Namespace":
            for key in [key for key in self.objects if key[1] == name]:
                del self.objects[key]

    def _join(self, order: MachineOrder) -> None:
        """As the VM's agent does: only with its valid token, or when its Node is there already."""
        config = agent_config(order)
        name = config["node-name"]
        token_id, _, secret = config["token"].partition("::")[2].partition(".")
        found = self.objects.get(("Secret", names.NAMESPACE_SYSTEM, join.secret_name(token_id)))
        if name not in self.node_facts and found and found["stringData"]["token-secret"] == secret:
            labels = dict(text.split("=", 1) for text in config["node-label"])
            self.add_node(name, labels, ready=self.ready)
            key = ("Secret", names.NAMESPACE_SYSTEM, join.password_secret_name(name))
            self.objects[key] = {"metadata": {"name": key[2], "uid": self._uid()}}

    def _made(self, token: str, pool_id: str) -> ResourceFact:
        self.pool_of[token] = pool_id
        self.resource_facts[token] = ResourceFact(token, ResourceState.PENDING, version=1)
        return self.resource_facts[token]

    def _released_or(self, token: str) -> ResourceFact | None:
        fact = self.resource_facts.get(token)
        if fact is not None and fact.state in (ResourceState.RELEASING, ResourceState.RELEASED):
            raise LedgerRefused(f"{token} was released before")
        return fact

    def _call(self, text: str) -> None:
        for begin, error in self.refusals.items():
            if text.startswith(begin):
                raise error
        self.calls.append(text)

    def _after(self, text: str) -> None:
        """The call has had its effect, and nobody learns of it."""
        if self.kill_at is not None and len(self.calls) >= self.kill_at:
            raise Killed(text)

    def _uid(self) -> str:
        return f"uid-{next(self._uids)}"


def agent_config(order: MachineOrder) -> Mapping[str, Any]:
    """K3s's configuration in a VM's user data."""
    import yaml

    files = yaml.safe_load(order.user_data)["write_files"]
    config: Mapping[str, Any] = yaml.safe_load(next(f for f in files if f["path"].endswith("config.yaml"))["content"])
    return config


def unavailable() -> ClusterUnavailable:
    return ClusterUnavailable("the cluster service is away")


def forbidden(verb: str, kind: str) -> KubeError:
    resource = KINDS[kind].resource
    return KubeError("forbidden", f"{verb} {resource}: denied", 403, verb, resource)


def tokens_of(orders: Iterable[MachineOrder]) -> list[str]:
    return [agent_config(order)["token"] for order in orders]
