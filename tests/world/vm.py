"""VMs of the tests: systemd-nspawn on an overlay of one Debian root, with real systemd, cloud-init and sshd, each in a
network namespace of its own on a bridge that only this computer sees.

Everything that a run makes bears its number: bridge, namespaces, cgroups and the folder of its disks. A run holds a
lock as long as it lives; what has a number and no holder of its lock is a dead run's, and is removed by the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from tests.world.assets import location

T = TypeVar("T")

PATIENCE = 240.0  # for what takes seconds on a computer that has nothing else to do
METADATA_ADDRESS = "169.254.169.254"
_DISKS = Path("/var/tmp/anycloud-world")  # a plain file system: overlays can't lie on an overlay
_PREFIX = "acw"
_CGROUPS = Path("/sys/fs/cgroup")
_NAMESPACES = Path("/run/netns")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2)
_END_SECONDS = 30.0

# `sh -c … CGROUP HIERARCHY… -- COMMAND…`: the command, in that cgroup of each hierarchy.
_INTO_CGROUPS = """
while [ "$1" != -- ]; do echo $$ >"$1/$0/cgroup.procs"; shift; done
shift
exec "$@"
"""

_libc = ctypes.CDLL(None, use_errno=True)


class Network:
    """A bridge for the VMs of one run: `with Network() as network`. `gateway` is this computer's address on it.

    Processes that work below `host`, or are told of it, end with the run at the latest."""

    def __init__(self) -> None:
        self.number = f"{random.SystemRandom().randrange(16**4):04x}"
        self.bridge = f"{_PREFIX}-{self.number}"
        self.directory = _DISKS / self.number
        self.host = self.directory / "host"
        self.subnet = _free_subnet()
        self.gateway = f"{self.subnet}.1"
        self.vms: list[VM] = []  # that have a disk
        self._next = 10
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        remove_leftovers()
        _DISKS.mkdir(mode=0o700, exist_ok=True)
        self._lock = _lock_file(self.number).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.host.mkdir(mode=0o700, parents=True)
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.gateway}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _remove_run(self.number)
        if self._lock:
            self._lock.close()

    def vm(self, name: str, user_data: bytes, *, bind: Sequence[tuple[Path, str]] = ()) -> VM:
        """A machine that is off. `bind` are files and folders of this computer that it can read."""
        self._next += 1
        self.vms.append(VM(self, name, self._next - 1, user_data, bind))
        return self.vms[-1]

    def diagnose(self) -> str:
        return "\n".join(f"== VM {vm.name}\n{vm.diagnose()}" for vm in self.vms)


class VM:
    """A machine and its disk. `address` is its own on the bridge; `boot`, `cut` and `boot` again keep the disk.

    Files below `disk` are there before the first boot; `/var/lib/rancher` is `data`, on a file system that containerd
    can lay overlays on."""

    def __init__(
        self, network: Network, name: str, number: int, user_data: bytes, bind: Sequence[tuple[Path, str]]
    ) -> None:
        self.name, self.network = name, network
        self.address = f"{network.subnet}.{number}"
        self.directory = network.directory / str(number)
        self.disk, self.data = self.directory / "upper", self.directory / "data"
        self._root = self.directory / "root"
        self._id = f"{network.bridge}-{number}"
        self._link = f"v{network.number}-{number}"
        self._bind = bind
        self._process: subprocess.Popen[bytes] | None = None
        for directory in (self.disk, self.data, self._root, self.directory / "work"):
            directory.mkdir(parents=True, mode=0o755)
        self._write_disk(user_data)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def console(self) -> str:
        """What it printed while it was on."""
        path = self.directory / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """A file on the disk of a machine that is off."""
        target = self.disk / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def boot(self, services: Callable[[VM], None] | None = None) -> None:
        """Turns it on and returns at once. `services` may listen in its network before it runs."""
        self._plug_in()
        if services:
            services(self)
        overlay = f"lowerdir={location.root()},upperdir={self.disk},workdir={self.directory / 'work'}"
        _run("mount", "-t", "overlay", self._id, "-o", overlay, str(self._root))
        for controller in _controllers():
            (controller / self._id).mkdir(exist_ok=True)
            if controller.name == "cpuset":  # of v1: empty at first, and then nothing may enter it
                _copy_cpuset(controller, controller / self._id)
        binds = [f"--bind={self.data}:/var/lib/rancher", *(f"--bind-ro={path}:{at}" for path, at in self._bind)]
        command = ["systemd-nspawn", "--boot", f"--directory={self._root}", f"--machine={self._id}"]
        command += [f"--network-namespace-path={_NAMESPACES / self._id}", "--register=no", "--keep-unit", "--quiet"]
        # runc joins a session keyring, which nspawn doesn't let it without this.
        command += ["--capability=all", "--system-call-filter=@keyring", "--resolv-conf=off", "--console=read-only"]
        with (self.directory / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _INTO_CGROUPS, self._id, *map(str, _controllers()), "--", *command, *binds],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def cut(self) -> None:
        """Pulls the plug: nothing in it gets to do anything more. The disk stays."""
        kill_all(partial(_processes_in, self._id))
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        _remove_machine(self._id, self._link)
        _unmount_below(self.directory)

    def destroy(self) -> None:
        self.cut()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.network.vms.remove(self)

    def run(self, *words: str, check: bool = True, seconds: float = 30) -> str:
        """What a command prints that runs in it, as root, in all of its namespaces."""
        leader = _leader(self._id)
        if leader is None:
            raise RuntimeError(f"{self.name} is off")
        command = ["nsenter", f"--target={leader}", "--all", "--", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)} in {self.name} ended with {done.returncode}: {done.stderr}")
        return done.stdout + ("" if check else done.stderr)

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening socket of this process, in the machine's network."""
        made: list[socket.socket | OSError] = []

        def inside() -> None:
            try:
                with (_NAMESPACES / self._id).open() as namespace:
                    if _libc.setns(namespace.fileno(), _NEW_NETWORK):
                        raise OSError(ctypes.get_errno(), "setns")
                made.append(socket.create_server((address, port)))
            except OSError as error:
                made.append(error)

        thread = threading.Thread(target=inside)  # only this thread changes its network, and it ends here
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        return made[0]

    def diagnose(self) -> str:
        """What helps whoever reads of a failure: the end of its journal, and its containers."""
        if _leader(self._id) is None:
            return f"{self.name} is off; its console said:\n{self.console[-3000:]}"
        asked = [
            ["systemctl", "--failed", "--no-legend"],
            [
                "journalctl",
                "--no-pager",
                "-n",
                "150",
                "-o",
                "short-precise",
                "--grep",
                "^(?!.*(cri_stats|eviction_man))",
            ],
            ["k3s", "kubectl", "get", "nodes,pods,events", "--all-namespaces"],  # where it is a server
            ["ctr", "--address", "/run/k3s/containerd/containerd.sock", "-n", "k8s.io", "tasks", "list"],
        ]
        return "\n".join(f"$ {' '.join(words)}\n{self.run(*words, check=False)}" for words in asked)

    def _write_disk(self, user_data: bytes) -> None:
        self.write("/var/lib/cloud/seed/nocloud/user-data", user_data.decode(), 0o600)
        about = f"instance-id: {self._id}\nlocal-hostname: {self.name}\n"
        self.write("/var/lib/cloud/seed/nocloud/meta-data", about)
        self.write("/etc/cloud/cloud.cfg.d/92-keys.cfg", "ssh_genkeytypes: [ed25519]\n")
        # Without its own name here every `sudo` waits for a name server.
        self.write("/etc/hosts", f"127.0.0.1 localhost {self.name}\n{METADATA_ADDRESS} github.com\n")
        self.write("/etc/resolv.conf", "")

    def _plug_in(self) -> None:
        _ip("netns", "add", self._id)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self._id)
        _ip("link", "set", self._link, "master", self.network.bridge, "up")
        inside = ("-n", self._id)
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "addr", "add", f"{METADATA_ADDRESS}/32", "dev", "lo")
        _ip(*inside, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip(*inside, "link", "set", "eth0", "up")
        _ip(*inside, "route", "add", "default", "via", self.network.gateway)


def until(look: Callable[[], T | None], what: str, pause: float = 0.1) -> T:
    """The first answer that is true; no answer at all is none yet. Raises TimeoutError that says what didn't come."""
    deadline = time.monotonic() + PATIENCE
    while True:
        reason = ""
        try:
            if found := look():
                return found
        except OSError as error:
            reason = f": {error!r}"
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE:.0f} s{reason}")
        time.sleep(pause)


def remove_leftovers() -> None:
    """Ends and removes whatever dead runs left."""
    numbers = {path.stem for path in _DISKS.glob("*.lock")} | {path.name for path in _DISKS.glob("????")}
    numbers |= {path.name.split("-")[1] for path in _NAMESPACES.glob(f"{_PREFIX}-*-*")}
    numbers |= {path.name.split("-")[1] for path in Path("/sys/class/net").glob(f"{_PREFIX}-????")}
    for number in numbers:
        _DISKS.mkdir(mode=0o700, exist_ok=True)
        with _lock_file(number).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove_run(number)


def kill_all(find: Callable[[], list[int]]) -> None:
    """Kills processes by their ids until none is found."""
    deadline = time.monotonic() + _END_SECONDS
    while found := find():
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {found} don't end")
        time.sleep(0.02)


def _remove_run(number: str) -> None:
    kill_all(partial(_processes_about, str(_DISKS / number)))
    machines = {path.name for path in _NAMESPACES.glob(f"{_PREFIX}-{number}-*")}
    machines |= {path.name for controller in _controllers() for path in controller.glob(f"{_PREFIX}-{number}-*")}
    for machine in machines:
        kill_all(partial(_processes_in, machine))
        _remove_machine(machine, f"v{number}-{machine.rpartition('-')[2]}")
    _unmount_below(_DISKS / number)
    _run("ip", "link", "del", f"{_PREFIX}-{number}", check=False)
    shutil.rmtree(_DISKS / number, ignore_errors=True)
    _lock_file(number).unlink(missing_ok=True)


def _remove_machine(machine: str, link: str) -> None:
    _run("ip", "link", "del", link, check=False)
    _run("ip", "netns", "del", machine, check=False)
    shutil.rmtree(Path("/run/systemd/nspawn/propagate") / machine, ignore_errors=True)
    for controller in _controllers():
        for directory in reversed(_cgroups_below(controller / machine)):
            _remove_cgroup(directory)


def _remove_cgroup(directory: Path) -> None:
    """The kernel may still be counting what ended in it."""
    for _ in range(50):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return


def _processes_in(machine: str) -> list[int]:
    """All that runs in a machine, its own nspawn among them: by its cgroups, which Pods' are below."""
    found: set[int] = set()
    for controller in _controllers():
        for directory in _cgroups_below(controller / machine):
            with contextlib.suppress(OSError):
                found.update(map(int, (directory / "cgroup.procs").read_text().split()))
    return sorted(found)


def _cgroups_below(directory: Path) -> list[Path]:
    """A cgroup and all in it, parents first. They may vanish meanwhile, which os.walk takes as it is."""
    return [Path(path) for path, _, _ in os.walk(directory)]


def _processes_about(directory: str) -> list[int]:
    """Those that work in a folder or were told of it; never this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (process / "cmdline").read_bytes() + b"\0" + (process / "environ").read_bytes()
            if f"{directory}/".encode() in told or str((process / "cwd").readlink()).startswith(f"{directory}/"):
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def _leader(machine: str) -> int | None:
    """The machine's process 1, as this computer numbers it."""
    for pid in _processes_in(machine):
        with contextlib.suppress(OSError, IndexError):
            status = Path(f"/proc/{pid}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            if len(numbers) == 2 and numbers[1] == "1":
                return pid
    return None


def _controllers() -> list[Path]:
    """The hierarchies of cgroup v1 with the controllerless one of v2 beside them, or the one of v2 alone."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _copy_cpuset(parent: Path, child: Path) -> None:
    for name in ("cpuset.cpus", "cpuset.mems"):
        (child / name).write_text((parent / name).read_text())


def _unmount_below(directory: Path) -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((at for at in mounts if Path(at).is_relative_to(directory)), key=len, reverse=True):
        _run("umount", "--lazy", mount, check=False)


def _lock_file(number: str) -> Path:
    return _DISKS / f"{number}.lock"


def _free_subnet() -> str:
    routes = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=True).stdout
    taken = {line.split()[0].rpartition(".")[0] for line in routes.splitlines()}
    return random.SystemRandom().choice([name for number in range(1, 255) if (name := f"10.77.{number}") not in taken])


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


@contextlib.contextmanager
def machine(network: Network, name: str, user_data: bytes) -> Iterator[VM]:
    """A VM that is on, and that is gone afterwards."""
    made = network.vm(name, user_data)
    try:
        made.boot()
        yield made
    finally:
        made.destroy()
