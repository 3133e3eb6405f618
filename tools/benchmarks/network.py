"""Two network namespaces and a veth pair between them, made for one run and removed after it, whatever happens.

    namespace a                               namespace b
      cwb0  kernel 10.98.0.1/24     <------->   cwb0  kernel 10.98.0.2/24
            stack  10.98.1.1/24                       stack  10.98.1.2/24   (answered by the program, not the kernel)
"""
import contextlib
import dataclasses
import os
import re
import shutil
import signal
import subprocess

from .rows import Unmeasurable

DEVICE = "cwb0"


class Side:
    def __init__(self, namespace, number):
        self.namespace = namespace
        self.kernel_address = f"10.98.0.{number}"
        self.stack_address = f"10.98.1.{number}"

    def prefix(self):
        return ["ip", "netns", "exec", self.namespace]


def _run(*command):
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
    except FileNotFoundError as e:
        raise Unmeasurable(f"{command[0]} is missing: apt-get install iproute2") from e
    except subprocess.CalledProcessError as e:
        raise Unmeasurable(f"{' '.join(command)}: {e.stderr.strip()} (network namespaces need root)") from e
    except subprocess.TimeoutExpired as e:
        raise Unmeasurable(f"{' '.join(command)} did not end within {e.timeout:g} s") from e


@dataclasses.dataclass(frozen=True)
class KernelThread:
    pid: int


def _kernel_threads(prefix):
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
            if comm.read().startswith(prefix):
                found.add(int(pid))
    return found


def _owner_is_alive(namespace):
    match = re.fullmatch(r"cwb-(\d+)-[a-z]+", namespace)
    return match is None or os.path.exists(f"/proc/{match.group(1)}")


def _end_all_in(namespace):
    """A namespace lives as long as a process in it, though its name be gone."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(pid), signal.SIGKILL)


def remove_leftovers():
    """Namespaces of earlier runs that were killed, and what runs there: their names tell whose they were."""
    try:
        names = os.listdir("/run/netns")
    except OSError:
        return
    for name in names:
        if name.startswith("cwb-") and not _owner_is_alive(name):
            _end_all_in(name)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


class VethPair:
    """A context manager. One queue on each device, so that one shard sees everything. `mark`: a letter, for whoever needs more than
    one pair in a run. `offloads=False`: the kernel sends and receives packets of the MTU, one by one. `thread_on`: a CPU on which a
    thread of a's kernel (`threads`) receives what b sends, as behind a NIC, with GRO, as NICs have it; else b's system call does that
    work, packet by packet."""

    def __init__(self, mark="", offloads=True, thread_on=None):
        self.a = Side(f"cwb-{os.getpid()}-{mark}a", 1)
        self.b = Side(f"cwb-{os.getpid()}-{mark}b", 2)
        self.offloads = offloads
        self.thread_on = thread_on
        self.threads = []

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unmeasurable("network namespaces need root: run it with sudo")
        remove_leftovers()
        if (self.thread_on is not None or not self.offloads) and shutil.which("ethtool") is None:
            raise Unmeasurable("ethtool is missing: apt-get install ethtool")
        try:
            self._make()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _make(self):
        for side in (self.a, self.b):
            _run("ip", "netns", "add", side.namespace)
            _run(*side.prefix(), "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1",
                 "net.ipv6.conf.all.disable_ipv6=1")
            _run(*side.prefix(), "ip", "link", "set", "lo", "up")
        queues = ["numrxqueues", "1", "numtxqueues", "1"]
        _run("ip", "link", "add", DEVICE, *queues, "netns", self.a.namespace, "type", "veth", "peer", "name", DEVICE,
             *queues, "netns", self.b.namespace)
        for side in (self.a, self.b):
            _run(*side.prefix(), "ip", "address", "add", f"{side.kernel_address}/24", "dev", DEVICE)
            if not self.offloads:
                _run(*side.prefix(), "ethtool", "-K", DEVICE, "tso", "off", "gso", "off", "gro", "off")
            _run(*side.prefix(), "ip", "link", "set", DEVICE, "up")
        if self.thread_on is not None:
            self._receive_in_a_thread()

    def _receive_in_a_thread(self):
        _run(*self.b.prefix(), "ethtool", "-K", DEVICE, "tso", "off")  # else veth takes what it sends for cut already
        _run(*self.a.prefix(), "ethtool", "-K", DEVICE, "gro", "on")   # only then is there something to thread
        before = _kernel_threads(f"napi/{DEVICE}-")
        _run(*self.a.prefix(), "sh", "-c", f"echo 1 > /sys/class/net/{DEVICE}/threaded")
        self.threads = [KernelThread(pid) for pid in _kernel_threads(f"napi/{DEVICE}-") - before]
        if not self.threads:
            raise Unmeasurable("this kernel receives in no thread of its own (Linux 5.12 and later do)")
        for thread in self.threads:
            os.sched_setaffinity(thread.pid, {self.thread_on})

    def __exit__(self, *_):
        for side in (self.a, self.b):
            subprocess.run(["ip", "netns", "delete", side.namespace], capture_output=True, check=False)
