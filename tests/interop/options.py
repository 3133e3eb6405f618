"""Every option of TCP turned the other way at the kernel's end, and then at ours, while frames are lost and overtake one another at ours: IPv4
and IPv6, each end in turn as the one that opens. Over the cable in $COREWIRE_LINK."""
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
TCP_FASTOPEN, TCP_FASTOPEN_CONNECT = 23, 30
DATA_IN_SYN = 32

# What ours is told, and what is not agreed on then. The kernel has everything on.
OURS_TURNED = {
    ("--tcp=no-sack", "--ecn"): SACK, ("--tcp=no-dsack", "--ecn"): 0, ("--tcp=no-timestamps", "--ecn"): TIMESTAMPS,
    ("--tcp=no-window-scaling", "--ecn"): SCALING,
    ("--tcp=no-sack,no-dsack,no-timestamps,no-window-scaling",): SACK | TIMESTAMPS | SCALING | ECN,
    ("--tcp=pacing,window-validation", "--ecn=accurate"): 0, ("--congestion=newreno", "--mtu-probing=always"): ECN, ("--congestion=bbr",): ECN,
    ("--congestion=dctcp",): 0,
}


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


def network(ipv6=True, ours=("--ecn=classic",), faults=(FAULTS,)):
    options = [*ours, *faults]
    if ipv6:
        options += [f"--address={OURS6}/64", "--dad-transmits=0"] + ([f"--host-address={PEER6}/64"] if KIND == "tap" else [])
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


def answer_early(world, address):
    """A server of the kernel's that takes data from SYNs, answers each of three connections, and closes it: which of them began with data."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 5)
        listener.settimeout(kernel.SECONDS)
        at = f"[{address}]" if ":" in address else address
        client = world.start("cw-pingpong", f"--connect={at}:{listener.getsockname()[1]}", "--short", "--fast-open", "--size=100", "--count=3",
                             network=network(":" in address, faults=()))
        try:
            early = []
            for _ in range(3):
                with listener.accept()[0] as peer:
                    peer.settimeout(kernel.SECONDS)
                    early.append(bool(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & DATA_IN_SYN))
                    peer.sendall(kernel.receive_exactly(peer, 100))
            if client.wait(60) != 0:
                raise AssertionError(client.output())
        finally:
            client.end()
    return early


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

    def answer(self, address, options):
        """cw-pingpong calls a server of the kernel's, and compares every byte that comes back. The server."""
        server = Echo()
        self.addCleanup(server.close)
        at = f"[{address}]" if ":" in address else address
        client = self.world.start("cw-pingpong", f"--connect={at}:{server.port}", "--json", "--size=20000", "--pipeline=5", "--count=20",
                                  network=options)
        try:
            self.assertEqual(client.wait(60), 0, client.output())
            reports = [json.loads(line) for line in client.output().splitlines() if line.startswith("{")]
            self.assertEqual([r["errors"] for r in reports], [0], client.output())
        finally:
            client.end()
        self.assertIsNone(server.failure)
        return server

    def we_call(self, address, settings):
        self.assert_agreed(self.answer(address, network(":" in address)).agreed, settings, False, address)

    def test_we_open(self):
        began = time.monotonic()
        for name, turned in CASES.items():
            settings = PLAIN | turned
            set_options(settings)
            for address in (PEER, PEER6):
                with self.subTest(name, address=address):
                    self.we_call(address, settings)
        self.assertGreater(self.had_ecn, 0)
        show(f"{2 * len(CASES)} connections of 400,000 bytes there and back in {time.monotonic() - began:.1f} s")

    def test_ours_is_turned_and_the_kernel_opens(self):
        settings = PLAIN | {"tcp_ecn": 1}
        set_options(settings)
        for ours, gone in OURS_TURNED.items():
            with self.subTest(ours):
                echo = self.world.start_echo(network=network(ours=ours))
                try:
                    eventually("cw-echo answers over IPv6", lambda: kernel.ping6(OURS6, seconds=1))
                    for address in (OURS, OURS6):
                        with connect(address, settings) as s:
                            self.assertIn(agreed(s), (15 & ~gone, 15 & ~gone & ~ECN), address)
                            self.assertTrue(echoed(s), "other bytes came back")
                    self.assertTrue(echo.runs(), echo.output())
                finally:
                    echo.end()

    def test_ours_is_turned_and_opens(self):
        set_options(PLAIN | {"tcp_ecn": 1})
        for ours, gone in OURS_TURNED.items():
            for address in (PEER, PEER6):
                with self.subTest(ours, address=address):
                    server = self.answer(address, network(":" in address, ours))
                    self.assertIn(server.agreed, (15 & ~gone, 15 & ~gone & ~ECN))

    def test_data_goes_with_the_kernels_syn(self):
        set_options(PLAIN)
        echo = self.world.start_echo("--fast-open", network=network(faults=()))
        self.addCleanup(echo.end)
        eventually("cw-echo answers over IPv6", lambda: kernel.ping6(OURS6, seconds=1))
        for address in (OURS, OURS6):
            early = []
            for _ in range(2):  # the first one is given a cookie
                with connect(address, PLAIN) as s:
                    self.assertTrue(echoed(s), "other bytes came back")
                    early.append(bool(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & DATA_IN_SYN))
            self.assertEqual(early, [False, True], address)

    def test_data_goes_with_our_syn(self):
        set_options(PLAIN | {"tcp_fastopen": 3})
        for address in (PEER, PEER6):
            with self.subTest(address=address):
                early = answer_early(self.world, address)
                self.assertEqual(early, [False, True, True], address)
