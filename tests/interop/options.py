"""Every option of TCP turned the other way at the kernel's end, while frames are lost and overtake one another at ours: IPv4 and IPv6, each
end in turn as the one that opens. Over the cable in $COREWIRE_LINK."""
import hashlib
import json
import os
import socket
import threading
import time
import unittest

import kernel_side as kernel
from world import OURS, PEER, World, eventually, shell, show

KIND = os.environ["COREWIRE_LINK"]
OURS6, PEER6 = "2001:db8::2", "2001:db8::1"
PORT = 7
FAULTS = "--faults=drop=1/100,reorder=1/50,seed=7"
PLAIN = {"tcp_sack": 1, "tcp_timestamps": 1, "tcp_window_scaling": 1, "tcp_ecn": 2, "tcp_fastopen": 1, "tcp_mtu_probing": 0}
TURNED = {"tcp_sack": 0, "tcp_timestamps": 0, "tcp_window_scaling": 0, "tcp_ecn": 1, "tcp_fastopen": 0, "tcp_mtu_probing": 2}
CASES = {"as it comes": {}, "everything turned": TURNED, "no ECN": {"tcp_ecn": 0}} | {n: {n: v} for n, v in TURNED.items()}
SIZE = 400_000

# TCP_INFO's sixth byte (linux/tcp.h)
TIMESTAMPS, SACK, SCALING, ECN = 1, 2, 4, 8
TCP_FASTOPEN_CONNECT = 30


def agreed(s):
    """The options that the handshake has agreed on."""
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & (TIMESTAMPS | SACK | SCALING | ECN)


def retransmitted(s):
    return int.from_bytes(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100:], "little")


def expected(settings, kernel_opens):
    """Ours offers all of them."""
    bits = TIMESTAMPS * settings["tcp_timestamps"] | SACK * settings["tcp_sack"] | SCALING * settings["tcp_window_scaling"]
    return bits | (ECN if settings["tcp_ecn"] == 1 or (settings["tcp_ecn"] == 2 and not kernel_opens) else 0)


def set_options(settings):
    """Of the kernel in the namespace that this thread is in, which the test has made."""
    for name, value in settings.items():
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(str(value))


def make_world():
    world = World(KIND)
    if KIND != "tap":
        shell("ip", "address", "add", f"{PEER6}/64", "dev", "cw1", "nodad")
        shell("ethtool", "-K", "cw1", "tx", "off", "tso", "off", "gso", "off")  # so that what is lost is a segment
    return world


def network(ipv6=True):
    options = ["--ecn=classic", FAULTS]
    if ipv6:
        options += [f"--address={OURS6}/64"] + ([f"--host-address={PEER6}/64"] if KIND == "tap" else [])
    return options


def connect(address, settings):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.settimeout(kernel.SECONDS)
    if settings["tcp_fastopen"]:
        s.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)  # our programs give no cookie: the SYN asks, and is answered without
    s.connect((address, PORT))
    return s


def echoed(s):
    """Sends SIZE bytes and receives until the end meanwhile: whether they are the same."""
    sent = kernel.PATTERN[:SIZE]

    def write():
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)

    writer = threading.Thread(target=write)
    writer.start()
    got = hashlib.sha256()
    while block := s.recv(1 << 16):
        got.update(block)
    writer.join()
    return got.digest() == hashlib.sha256(sent).digest()


class Echo:
    """The kernel's server for one connection, at every address of its."""

    def __init__(self):
        self._listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self._listener.settimeout(kernel.SECONDS)
        self.port = self._listener.getsockname()[1]
        self.agreed = self.failure = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._listener.close()
        self._thread.join(kernel.SECONDS)

    def _serve(self):
        try:
            with self._listener.accept()[0] as peer:
                self.agreed = agreed(peer)
                while data := peer.recv(1 << 16):
                    peer.sendall(data)
        except OSError as e:
            self.failure = e


class Options(unittest.TestCase):
    def setUp(self):
        self.world = make_world()
        self.addCleanup(self.world.close)

        self.had_ecn = 0

    def assert_agreed(self, bits, settings, kernel_opens, address):
        """A SYN that had to be repeated offers no ECN (RFC 3168 6.1.1.1): some are lost, but not all."""
        wanted = expected(settings, kernel_opens)
        self.assertIn(bits, (wanted, wanted & ~ECN), address)
        self.had_ecn += bits & ECN != 0

    def test_the_kernel_opens(self):
        echo = self.world.start_echo(network=network())
        self.addCleanup(echo.end)
        eventually("cw-echo answers over IPv6", lambda: kernel.ping6(OURS6, seconds=1))  # where some are lost
        began, repaired = time.monotonic(), 0
        for name, turned in CASES.items():
            settings = PLAIN | turned
            set_options(settings)
            for address in (OURS, OURS6):
                with self.subTest(name, address=address), connect(address, settings) as s:
                    self.assert_agreed(agreed(s), settings, True, address)
                    self.assertTrue(echoed(s), "other bytes came back")
                    repaired += retransmitted(s)
        self.assertGreater(self.had_ecn, 0)
        self.assertGreater(repaired, 0, "nothing was lost")
        self.assertTrue(echo.runs(), echo.output())
        show(f"{2 * len(CASES)} connections of {SIZE} bytes there and back in {time.monotonic() - began:.1f} s")

    def we_call(self, address, settings):
        """cw-pingpong compares every byte that comes back."""
        server = Echo()
        self.addCleanup(server.close)
        at = f"[{address}]" if ":" in address else address
        client = self.world.start("cw-pingpong", f"--connect={at}:{server.port}", "--json", "--size=20000", "--pipeline=5", "--count=20",
                                  network=network(":" in address))
        try:
            self.assertEqual(client.wait(60), 0, client.output())
            reports = [json.loads(line) for line in client.output().splitlines() if line.startswith("{")]
            self.assertEqual([r["errors"] for r in reports], [0], client.output())
        finally:
            client.end()
        self.assertIsNone(server.failure)
        self.assert_agreed(server.agreed, settings, False, address)

    def test_we_open(self):
        began = time.monotonic()
        over_ipv6 = ("as it comes", "everything turned")  # where each call waits for duplicate address detection
        for name, turned in CASES.items():
            settings = PLAIN | turned
            set_options(settings)
            for address in (PEER, PEER6) if name in over_ipv6 else (PEER,):
                with self.subTest(name, address=address):
                    self.we_call(address, settings)
        self.assertGreater(self.had_ecn, 0)
        show(f"{len(CASES) + 2} connections of 400,000 bytes there and back in {time.monotonic() - began:.1f} s")
