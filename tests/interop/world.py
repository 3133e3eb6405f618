"""Namespaces, the cable between our stack and the kernel, and our programs in them.

    tap:           [ peer namespace: kernel -- tap device -- our program ]
    xdp:           [ peer namespace: kernel -- cw1 ] == veth == [ cw0 -- our program : our namespace ]

The test itself runs in the peer's namespace. Namespaces have no name here: they exist as long as this process holds
them, and our programs are killed when it ends, so nothing is left however a test ends.
"""
import contextlib
import ctypes
import fcntl
import glob
import os
import re
import signal
import subprocess
import sys
import time
import unittest

BIN = os.path.join(os.environ["COREWIRE_BINARY_DIR"], "bin")
OURS, PEER, BEYOND = "192.0.2.2", "192.0.2.1", "192.0.2.3"  # our stack, the kernel's end, our end's own kernel
LONG = 30.0  # seconds that any single wait may last

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def cannot(why):
    """Leaves the case out and says so to CTest (cmake/run_test.sh), which unittest's own word does not: this machine lacks something. What a
    kind of cable has no use for is unittest's skipTest alone."""
    print(f"\nSKIPPED: {why}", flush=True)  # unittest has begun a line
    raise unittest.SkipTest(why)


def eventually(what, condition, seconds=LONG, pause=0.01):
    """Waits until condition() is true and returns its value; fails with `what` (text, or what makes it then) after `seconds`."""
    give_up = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(pause)
    return value


def shell(*command):
    """Runs a command to its end; its output. Raises with that output if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONG)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}: {done.stdout}")
    return done.stdout


def _new_namespace():
    """The calling thread is in a new namespace; a descriptor of it."""
    if _libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    shell("ip", "link", "set", "lo", "up")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _enter(namespace):
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def without_address_detection(device):
    """The kernel's end of a cable has its IPv6 addresses at once, and answers from them. Before the device is up; in this namespace."""
    for setting in ("accept_dad", "dad_transmits"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/sys/net/ipv6/conf/{device}/{setting}", "w") as file:
            file.write("0")


class World:
    """One cable: kind is `tap`, `generic` or `native`. Use it from the main thread."""

    def __init__(self, kind, queues=1):
        self.kind = kind
        self.ours = self.peer = _new_namespace()
        if kind == "tap":
            return
        self.peer = _new_namespace()
        path = f"/proc/{os.getpid()}/fd/{self.ours}"
        shape = ["numrxqueues", str(queues), "numtxqueues", str(queues)]
        shell("ip", "link", "add", "cw1", *shape, "type", "veth", "peer", "name", "cw0", *shape, "netns", path)
        shell("ip", "address", "add", f"{PEER}/24", "dev", "cw1")
        without_address_detection("cw1")
        shell("ip", "link", "set", "cw1", "up")
        self.at_ours("ip", "address", "add", f"{BEYOND}/24", "dev", "cw0")
        self.at_ours("ip", "link", "set", "cw0", "up")
        eventually("both ends of the cable are up",
                   lambda: all("LOWER_UP" in o for o in (shell("ip", "link", "show", "cw1"), self.devices_of_ours())))

    def close(self):
        for namespace in {self.ours, self.peer}:
            os.close(namespace)

    def _at_ours(self):
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.ours}"]

    def at_ours(self, *command):
        return shell(*self._at_ours(), *command)

    def devices_of_ours(self):
        return self.at_ours("ip", "-details", "link", "show")

    def start(self, program, *arguments, network=(), cores=1):
        """One of our programs, on this cable."""
        options = ["--net=tap"] if self.kind == "tap" else ["--net=xdp", f"--xdp-mode={self.kind}"]
        options += ["--interface=cw0", f"--cores={cores}", *network]
        if "--shared" not in network:
            options.append(f"--address={OURS}/24")
        if self.kind == "tap" and not any(option.startswith("--vlan") for option in network):
            options.append(f"--host-address={PEER}/24")
        return Program([*self._at_ours(), os.path.join(BIN, program), *options, *arguments])

    def start_echo(self, *arguments, **how):
        echo = self.start("cw-echo", *arguments, **how)
        echo.wait_for_line("cw-echo: ")
        return echo

    def attached_programs(self):
        """What says that XDP is attached to a device of ours: empty, or the lines."""
        lines = [line for line in self.devices_of_ours().splitlines() if "prog/xdp" in line or "xdpgeneric" in line]
        listing = self.at_ours("bpftool", "net", "show") if _has("bpftool") else ""
        return lines + re.findall(r"^cw0.*$", listing, re.M)


def _has(command):
    return any(os.access(os.path.join(d, command), os.X_OK) for d in os.environ["PATH"].split(":") + ["/usr/sbin"])


class Program:
    """A program of ours that runs, killed with us. Its output goes to a file that is already gone."""

    def __init__(self, command):
        self._log = os.memfd_create("output")
        # Unlike a file's, a memfd's position is not locked: two threads that write at once would write over each other.
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)
        self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL,
                                         stdout=self._log, stderr=self._log)
        self.pid = self._process.pid

    def output(self):
        return os.pread(self._log, 1 << 20, 0).decode(errors="replace")

    def wait_for_line(self, text):
        def there():
            if self._process.poll() is not None:
                raise AssertionError(f"ended with {self._process.returncode}: {self.output()}")
            return text in self.output()
        eventually(lambda: f"the line '{text}' in: {self.output()}", there)

    def send(self, what):
        os.kill(self.pid, what)

    def wait(self, seconds=LONG):
        """Its exit status; negative for a signal."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {seconds} s: {self.output()}") from None

    def runs(self):
        return self._process.poll() is None

    def processor_seconds(self):
        """Of all its threads, in user mode and in the kernel."""
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wake_ups(self):
        """How often its threads have gone to sleep, all together."""
        count = 0
        for status in glob.glob(f"/proc/{self.pid}/task/*/status"):
            with open(status) as lines:
                count += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
        return count

    def end(self):
        """For clean-up: gone when this returns."""
        if self.runs():
            self._process.kill()
        self._process.wait()
        os.close(self._log)
        with contextlib.suppress(FileNotFoundError):  # killed, it leaves its metrics behind for who wants to look
            os.unlink(f"/dev/shm/corewire-{self.pid}")


def stop(program, what=signal.SIGTERM):
    program.send(what)
    return program.wait()


def show(text):
    print(f"    {text}", file=sys.stderr, flush=True)
