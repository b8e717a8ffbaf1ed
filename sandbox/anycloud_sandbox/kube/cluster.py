"""One management machine's control plane: keys, objects, listener, controllers, and its player of HelmCharts."""

import asyncio
import base64
import hashlib
import logging
import secrets
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import orjson
import yaml
from aiohttp import web
from anycloud_control_plane.certificates import Authority, key_pem, new_key
from anycloud_control_plane.files import kubeconfig

from anycloud_sandbox.kube.api import CUT, END, Api
from anycloud_sandbox.kube.auth import Authenticator
from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.controllers import Controllers
from anycloud_sandbox.kube.store import PLURALS, KubeError, Store, fill, merge
from anycloud_sandbox.state import Faults, Json, Pace, State

log = logging.getLogger(__name__)
PORT = 6443
TLS_FOLDER = "rootfs/var/lib/rancher/k3s/server/tls"
SERVER_CA = f"{TLS_FOLDER}/server-ca.crt"
API_CHART = "anycloud-api"
NO_VALUES: Json = {"image": "", "revision": "", "release": {"api": {"url": ""}}}


def new_record(machine: Json, version: str, config: Json) -> Json:
    """What a cluster is, to be stored before it starts: its keys and K3s's configuration."""
    password = str(config.get("agent-token") or config.get("token") or secrets.token_hex(16))
    ca = Authority("k3s-server-ca")
    record = {"machine": machine["id"], "address": machine["address"], "version": version, "config": config}
    record |= {"caKey": key_pem(ca.key), "ca": ca.pem, "signer": key_pem(new_key())}
    return record | {"adminToken": secrets.token_hex(24), "joinPassword": password}


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def write_kubeconfig(directory: Path, endpoint: str, record: Json) -> None:
    admin = kubeconfig(endpoint, record["ca"], record["adminToken"])
    write(directory, "rootfs/etc/rancher/k3s/k3s.yaml", admin)


def admin_client(endpoint: str, record: Json) -> KubeClient:
    return KubeClient(endpoint, record["ca"], headers={"Authorization": f"Bearer {record['adminToken']}"})


class Cluster:
    serving = True  # from the end of `start` on

    def __init__(self, state: State, faults: Faults, record: Json, directory: Path, pace: Pace) -> None:
        self._faults, self._record, self._directory = faults, record, directory
        self._authority = Authority.load(record["caKey"], record["ca"])
        self.config, self.endpoint = record["config"], f"https://{record['address']}:{PORT}"
        self.node_labels = ["node-role.kubernetes.io/control-plane=true"]
        self.join_token = f"K10{hashlib.sha256(record['ca'].encode()).hexdigest()}::node:{record['joinPassword']}"
        self._store = Store(state, f"kube/{record['machine']}")
        auth = Authenticator(self._store, self._authority, record)
        self._controllers = Controllers(state, self._store, auth, record["ca"], pace)
        self._api = Api(state, faults, self._store, auth, record)

    async def start(self) -> None:
        record = self._record
        write_kubeconfig(self._directory, self.endpoint, record)
        write(self._directory, SERVER_CA, record["ca"])
        for seed in fill("seeds"):
            if not self._store.find(seed["plural"], "", seed["metadata"]["name"]):
                self._store.create(seed.pop("plural"), "", seed)
        server, client = (self._tls(protocol) for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
        server.verify_mode, server.num_tickets = ssl.CERT_OPTIONAL, 0
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE  # kubelets' certificates are their own
        self._api.kubelets = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client, limit=0))
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._api.handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, keepalive_timeout=3600)
        await self._runner.setup()
        await web.TCPSite(self._runner, record["address"], PORT, ssl_context=server, backlog=1024).start()
        self._faults.on_change.append(self._fault_changed)
        work = (self._controllers.run(), play_charts(self.admin_client()))
        self._tasks = [asyncio.create_task(part) for part in work]

    async def stop(self) -> None:
        self._faults.on_change.remove(self._fault_changed)
        for task in self._tasks:
            task.cancel()
        self._api.end_watches(END)
        await self._runner.cleanup()
        await self._api.kubelets.close()

    def admin_client(self) -> KubeClient:
        return admin_client(self.endpoint, self._record)

    def _tls(self, protocol: int) -> ssl.SSLContext:
        addresses = [self._record["address"], *self.config.get("tls-san", [])]
        context = ssl.SSLContext(protocol)
        chain = self._authority.issue("k3s", hosts=addresses) + self._record["ca"]
        context.load_cert_chain(write(self._directory, f"{TLS_FOLDER}/{protocol}.pem", chain))
        context.load_verify_locations(cadata=self._record["ca"])
        return context

    def _fault_changed(self, fault: Json) -> None:
        here = fault["match"].get("cluster", self._record["machine"]) == self._record["machine"]
        if here and fault["effect"] in ("cut", "down"):
            self._api.end_watches(CUT, fault["match"].get("resource"))
        elif here and fault["effect"] == "compact":
            self._store.log.clear()


async def play_charts(client: KubeClient) -> None:
    """For ever: the API's own chart becomes its objects, every other chart a finished install Job."""
    while True:
        try:
            async for event in client.follow(path_of("helmcharts", "kube-system")):
                charts = event["items"] if event["type"] == "SYNC" else [event["object"]]
                if event["type"] == "SYNC" and API_CHART not in [chart["metadata"]["name"] for chart in charts]:
                    await _remove(client, API_CHART)  # deleted while nobody looked
                for chart in charts:
                    if event["type"] == "DELETED":
                        await _remove(client, chart["metadata"]["name"])
                    else:
                        await _install(client, chart["metadata"]["name"], chart)
        except (KubeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            log.warning("charts are tried again: %r", error)
        await asyncio.sleep(1)


async def _install(client: KubeClient, name: str, chart: Json) -> None:
    spec, job = chart["spec"], f"helm-install-{name}"
    digest = hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()
    if chart["status"].get("configHash") == digest:
        return
    for body in api_objects(await _values(client, spec)) if name == API_CHART else ():
        await client.apply(body, "helm")
    await client.delete(path_of("jobs", "kube-system", job))
    body = fill("install-job", job=job, chart=name, image=spec.get("jobImage", "klipper-helm"))
    await client.call("POST", path_of("jobs", "kube-system"), body)
    status = fill("install-status", job=job, digest=digest)
    await client.patch(path_of("helmcharts", "kube-system", name, "status"), status)


async def _values(client: KubeClient, spec: Json) -> Json:
    """Those of the chart itself, then those of the Secrets that it names, as Helm merges them."""
    values: Json = yaml.safe_load(spec["valuesContent"])
    for source in spec.get("valuesSecrets", []):
        secret = await client.call("GET", path_of("secrets", "kube-system", source["name"]))
        for key in source["keys"]:
            values = merge(values, yaml.safe_load(base64.b64decode(secret["data"][key])))
    return values


async def _remove(client: KubeClient, name: str) -> None:
    await client.delete(path_of("jobs", "kube-system", f"helm-install-{name}"))
    for body in reversed(api_objects(NO_VALUES)) if name == API_CHART else ():
        meta = body["metadata"]
        await client.delete(path_of(PLURALS[body["kind"]], meta.get("namespace", ""), meta["name"]))


def api_objects(values: Json) -> list[Json]:
    """The manifests of the API's chart."""
    release, url = values["release"], urlsplit(values["release"]["api"]["url"])
    texts = {"release": orjson.dumps(release).decode(), "sandbox": release.get("sandboxUrl") or "", "url": url.geturl()}
    numbers = {"revision": str(values["revision"]), "port": url.port or 80, "host": url.hostname}
    return list(fill("chart", image=values["image"], **texts, **numbers))
