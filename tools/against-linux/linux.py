"""The kernel's side: a TUN device, in real time, in the network namespace that this process was started in."""
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import threading
import time

from wire import Wire

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI = 1, 0x1000
OFFLOADS = 1 | 2 | 4 | 8  # checksums, TSO over IPv4 and IPv6, ECN
DEVICE = "tun0"
LARGEST = 70000
PAUSE = 0.0004  # seconds before and after a packet: what has left is read first, and what it leads to begins


class Linux(Wire):
    def __init__(self, script, mode):
        super().__init__(mode)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._lock = threading.Lock()
        self._tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self._tun, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        fcntl.ioctl(self._tun, TUNSETOFFLOAD, OFFLOADS if script.segments == "whole" else 0)
        if self.ipv6:
            for name in ("accept_dad", "router_solicitations", "accept_ra"):
                _set_ipv6(name, 0)
            _ip(f"link set {DEVICE} mtu {script.mtu or 1520}", "link set lo up", f"addr add fd3d:0a0b:17d6::1/48 dev {DEVICE} nodad",
                f"link set {DEVICE} up", f"-6 route add default dev {DEVICE}")
        else:
            _set_ipv6("disable_ipv6", 1)
            _ip(f"link set {DEVICE} mtu {script.mtu or 1500}", "link set lo up", f"addr add 192.168.0.1/16 dev {DEVICE}",
                f"link set {DEVICE} up", "route add default via 192.168.0.2")
        if script.segments == "single":
            _ip(f"link set dev {DEVICE} gso_max_segs 1")
        self.start()
        threading.Thread(target=self._read, daemon=True).start()

    def start(self):
        """Time begins."""
        self._began = time.monotonic()

    def now(self):
        return time.monotonic() - self._began

    def wait_until(self, when):
        while True:
            left = when - self.now()
            if left <= 0:
                return
            time.sleep(left if left > 0.002 else 0.0002 if left > 0.0003 else 0)

    def add(self, connection):
        with self._lock:
            super().add(connection)

    def inject(self, data):
        time.sleep(PAUSE)
        os.write(self._tun, data)
        time.sleep(PAUSE)

    def before_step(self, when):
        pass

    def call(self, name, returns, *arguments):
        """Its result, and errno of a failed one (else 0)."""
        function = getattr(self._libc, name)
        function.restype = returns
        ctypes.set_errno(0)
        result = function(*arguments)
        return result, ctypes.get_errno() if result < 0 else 0

    def thread_started(self):
        time.sleep(0.001)

    def finish(self, when):
        self.wait_until(when)
        time.sleep(0.02)

    def _read(self):
        poll = select.poll()
        poll.register(self._tun, select.POLLIN)
        while True:
            if not poll.poll(50):
                continue
            try:
                data = os.read(self._tun, LARGEST)
            except OSError:
                return
            left = self.now()
            with self._lock:
                self.on_packet(left, data)


def _set_ipv6(name, value):
    with open(f"/proc/sys/net/ipv6/conf/{DEVICE}/{name}", "w", encoding="ascii") as file:
        file.write(str(value))


def _ip(*commands):
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)
