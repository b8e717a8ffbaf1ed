"""AWS, GCP and Azure as far as the product buys from them: networks, addresses, machines and buckets, by account."""

import asyncio
import base64
import hashlib
import secrets
import socket
import time
from collections.abc import Callable, Mapping

from anycloud_sandbox.kube.store import timestamp
from anycloud_sandbox.state import MACHINES, Faults, Json, State, WorldError

KINDS = {"Network": "networks", "Address": "addresses", "Machine": "machines"}
FIELDS = ("name", "region", "rules", "zone", "vmType", "image", "network", "address", "userData")  # all but tags
STEPS = {"pending": ("running", 0.5), "stopping": ("terminated", 0.3)}  # the next state, and the seconds to it
HIDDEN = ("asked", "userData", "stuck", "place")  # what an owner does not see


def free_port(host: str) -> int:
    """A port that nobody has now, below the kernel's range for outgoing connections."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            if probe.connect_ex((host, port)):
                return port


def account_of(provider: str, headers: Mapping[str, str]) -> str:
    """The account that a key belongs to; raises for keys that a cloud would refuse."""
    key, word = headers.get("x-sandbox-key", ""), headers.get("x-sandbox-secret", "")
    if provider not in ("AWS", "GCP", "Azure") or not key or word in ("", "revoked"):
        raise WorldError("auth", f"{provider} refused the credential")
    return key.split("." if provider == "AWS" else "/")[0]


class Clouds:
    """`on_machine` hears of each machine that changed state."""

    def __init__(self, state: State, faults: Faults, delay: float, on_machine: Callable[[Json], None]) -> None:
        self._state, self._faults, self._delay, self._on_machine = state, faults, delay, on_machine
        self._items = {kind: state.load(plural) for kind, plural in KINDS.items()}
        self.machines = self._items["Machine"]
        everything = [(kind, item) for kind, items in self._items.items() for item in items.values()]
        self._by_token = {(kind, *item["place"], item["token"]): item for kind, item in everything}

    def resume(self) -> None:
        """Goes on with what was on its way when the sandbox was killed."""
        for machine in self.machines.values():
            self._move_on(machine)

    def call(self, provider: str, account: str, action: str, body: Json) -> Json:
        work = {"Create": self._create, "Delete": self._delete, "Describe": self._describe, "List": self._list}
        for kind, plural in KINDS.items():
            for verb, act in work.items():
                if action in (f"{verb}{kind}", f"{verb}{plural.capitalize()}"):
                    return act(kind, [provider, account], body)
        if action == "SetRules":
            network = self._own("Network", [provider, account], body["id"]) | {"rules": body["rules"]}
            return {"network": _shown(self._saved("Network", network))}
        if action != "Identity":
            raise WorldError("invalid", f"no action {action}")
        return {"account": account}

    def _create(self, kind: str, place: list[str], body: Json) -> Json:
        """The item of this token: a new one, or the one that an earlier call with equal arguments made."""
        asked = {name: body.get(name) for name in FIELDS} | {"tags": body.get("tags") or {}}
        item = self._by_token.get((kind, *place, body["token"]))
        if item and item["asked"] != asked:
            raise WorldError("conflict", f"token {body['token']} was used with other arguments")
        if item is None:
            item = asked | {"asked": asked, "token": body["token"], "place": place, "provider": place[0]}
            item |= {"id": f"{kind.lower()}-{secrets.token_hex(8)}", "createdAt": timestamp(time.time())}
            item |= {"ip": self._new_ip()} if kind == "Address" else {"account": place[1]}
            item |= self._new_machine(place, asked) if kind == "Machine" else {}
            self._move_on(self._saved(kind, item))
        return {kind.lower(): _shown(item)}

    def _new_ip(self) -> str:
        """An address in 127.64.0.0/10, which is this computer and nothing else."""
        used = {item["ip"] for item in self._items["Address"].values()} | {m["address"] for m in self.machines.values()}
        while True:
            number = secrets.randbelow(2**22)
            ip = f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{1 + number % 254}"
            if ip not in used:
                return ip

    def _new_machine(self, place: list[str], asked: Json) -> Json:
        self._own("Network", place, asked["network"], "invalid")
        ip = self._own("Address", place, asked["address"], "invalid")["ip"] if asked["address"] else self._new_ip()
        about = {name: asked[name] for name in ("name", "region", "vmType")}
        stuck = [effect for effect in MACHINES if self._faults.take(effect, area="machine", provider=place[0], **about)]
        machine = {"state": "pending", "address": ip, "sshPort": free_port(ip), "failure": None}
        return machine | {"stuck": "".join(stuck[:1])}

    def _describe(self, kind: str, place: list[str], body: Json) -> Json:
        found = self._by_token.get((kind, *place, body.get("token")))
        return {kind.lower(): _shown(found or self._own(kind, place, body.get("id") or body["token"]))}

    def _list(self, kind: str, place: list[str], body: Json) -> Json:
        tags, region = (body.get("tags") or {}).items(), body.get("region")
        mine = [item for item in self._items[kind].values() if item["place"] == place and item["tags"].items() >= tags]
        return {KINDS[kind]: [_shown(item) for item in mine if region in (None, item["region"])]}

    def _delete(self, kind: str, place: list[str], body: Json) -> Json:
        item = self._own(kind, place, body["id"])
        if kind == "Machine":
            if item["state"] in ("pending", "running"):
                self._set_state(item, "stopping")
            return {"machine": _shown(item)}
        for machine in self.machines.values():
            if machine["state"] != "terminated" and item["id"] in (machine["network"], machine["asked"]["address"]):
                raise WorldError("conflict", f"{item['id']} is used by {machine['id']}")
        del self._items[kind][item["id"]], self._by_token[kind, *place, item["token"]]
        self._state.put(KINDS[kind], item["id"], None)
        return {}

    def _set_state(self, machine: Json, state: str) -> None:
        machine["state"] = state
        self._move_on(self._saved("Machine", machine))
        self._on_machine(machine)

    def _move_on(self, item: Json) -> None:
        """Lets a machine reach its next state after the time that this takes."""
        before = item.get("state", "")
        state, seconds = STEPS.get(before, ("", 0.0))

        def arrive() -> None:
            if item["state"] == before:
                self._set_state(item, state)

        if state and (before, item["stuck"]) != ("pending", "never-boots"):
            asyncio.get_running_loop().call_later(seconds * self._delay, arrive)

    def _own(self, kind: str, place: list[str], item_id: str, otherwise: str = "not_found") -> Json:
        item = self._items[kind].get(item_id)
        if item is None or item["place"] != place:
            raise WorldError(otherwise, f"{place[0]} has no {kind} {item_id} in account {place[1]}")
        return item

    def _saved(self, kind: str, item: Json) -> Json:
        self._items[kind][item["id"]] = self._by_token[kind, *item["place"], item["token"]] = item
        self._state.put(KINDS[kind], item["id"], item)
        return item


def _shown(item: Json) -> Json:
    return {name: value for name, value in item.items() if name not in HIDDEN}


class Buckets:
    """With versions, newest first, and conditional writes. A bucket's name is its provider's."""

    def __init__(self, state: State) -> None:
        self._state, self._buckets = state, state.load("buckets")

    def call(self, provider: str, account: str, action: str, body: Json) -> Json:
        place = f"{provider}/{body.get('name') or body['bucket']}"
        bucket = self._buckets.get(place)
        if action == "CreateBucket":
            asked = {"name": body["name"], "region": body["region"], "tags": body.get("tags") or {}, "account": account}
            bucket = bucket or {**asked, "managed": bool(asked["tags"]), "versioning": False, "objects": {}}
            if any(bucket[name] != value for name, value in asked.items()):
                raise WorldError("conflict", f"bucket {place} exists")
        if bucket is None or bucket["account"] != account:
            raise WorldError("auth" if bucket else "not_found", f"no bucket {place} for account {account}")
        if action == "DeleteBucket":
            if bucket["objects"]:
                raise WorldError("conflict", f"bucket {place} is not empty")
            del self._buckets[place]
            self._state.put("buckets", place, None)
            return {}
        answer = self._act(action, bucket, bucket["objects"].get(body.get("key"), []), body)
        if not action.startswith(("Get", "Head", "List")):
            self._buckets[place] = bucket
            self._state.put("buckets", place, bucket)
        return answer

    def _act(self, action: str, bucket: Json, versions: list[Json], body: Json) -> Json:
        match action:
            case "PutObject":
                current = versions[0]["etag"] if versions else None
                if (body.get("ifNoneMatch") and current) or body.get("ifMatch") not in (None, "", current):
                    raise WorldError("conflict", f"{body['key']} is not in the state that the write asks for")
                etag = hashlib.sha256(base64.b64decode(body["data"], validate=True)).hexdigest()
                new = {"version": secrets.token_hex(8), "etag": etag, "data": body["data"]}
                bucket["objects"][body["key"]] = [new, *(versions if bucket["versioning"] else [])]
                return {"etag": new["etag"], "version": new["version"]}
            case "GetObject":
                if found := [item for item in versions if body.get("version") in (None, item["version"])]:
                    return found[0]
                raise WorldError("not_found", f"no such object {body['key']}")
            case "ListObjects" | "ListVersions":
                most = 1 if action == "ListObjects" else None
                below = [key for key in sorted(bucket["objects"]) if key.startswith(body.get("prefix") or "")]
                lines = [_line(key, item, at) for key in below for at, item in enumerate(bucket["objects"][key][:most])]
                return {action.removeprefix("List").lower(): lines}
            case "DeleteVersion":
                bucket["objects"][body["key"]] = [item for item in versions if item["version"] != body["version"]]
                bucket["objects"] = {key: found for key, found in bucket["objects"].items() if found}
            case "SetVersioning":
                bucket["versioning"] = bool(body["enabled"])
        return {"bucket": {name: value for name, value in bucket.items() if name not in ("account", "objects")}}


def _line(key: str, item: Json, age: int) -> Json:
    size = len(base64.b64decode(item["data"]))
    return {"key": key, "etag": item["etag"], "version": item["version"], "size": size, "latest": age == 0}
