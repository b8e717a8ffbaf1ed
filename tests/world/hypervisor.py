"""Real VMs for the machines that the product buys in the sandbox's clouds, booted with the very user data it sends."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.world.surroundings import Surroundings
from tests.world.vm import VM, Network

Json = dict[str, Any]

_POLL_SECONDS = 5


class Hypervisor:
    """Follows the sandbox's machines until `stop`. `vms` are those that it ever had, by the machine's id."""

    def __init__(
        self, network: Network, world_url: str, surroundings: Surroundings, image_names: Mapping[str, str]
    ) -> None:
        self.vms: dict[str, VM] = {}
        self.failure: BaseException | None = None
        self._network, self._url = network, world_url
        self._surroundings, self._image_names = surroundings, image_names
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_POLL_SECONDS + 10)
        for vm in self.vms.values():
            self.cut(vm)

    def named(self, name: str) -> VM | None:
        """The VM of the machine, and so of the Node, of that name."""
        return next((vm for vm in self.vms.values() if vm.name == name), None)

    def machine_id(self, vm: VM) -> str:
        return next(key for key, value in self.vms.items() if value is vm)

    def cut(self, vm: VM) -> None:
        """Takes its power away. For its provider the machine runs on."""
        with self._lock:
            self._surroundings.close(vm)
            vm.cut()

    def boot(self, vm: VM) -> None:
        """Gives it power, for the first time or again."""
        with self._lock:
            vm.boot(self._surroundings.serve)

    def _follow(self) -> None:
        since = 0
        while not self._stopping.is_set():
            try:
                url = f"{self._url}/hypervisor/machines?since={since}&wait={_POLL_SECONDS}"
                with urllib.request.urlopen(url, timeout=_POLL_SECONDS + 10) as answer:
                    found = json.load(answer)
                for line in found["machines"]:
                    self._see(line)
                since = found["since"]
            except (urllib.error.URLError, OSError, ValueError):
                self._stopping.wait(0.5)
            except BaseException as error:
                self.failure = error
                raise

    def _see(self, line: Json) -> None:
        vm = self.vms.get(line["id"])
        if vm is None and line["state"] == "running" and line["nodeConfig"]:
            bind = self._surroundings.brought_along()
            vm = self.vms[line["id"]] = self._network.vm(line["name"], line["userData"].encode(), bind=bind)
            self._surroundings.prepare(vm, self._image_names)
            self.boot(vm)
        elif vm is not None and line["state"] in ("stopping", "terminated"):
            self.cut(vm)
            vm.destroy()
