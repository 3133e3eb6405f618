"""Our stack and the kernel over IPv6: ping, TCP both ways, UDP, what is refused. Over the cable in $COREWIRE_LINK."""
import json
import os
import socket
import threading
import unittest

import kernel_side as kernel
from world import OURS, World, eventually, shell

KIND = os.environ["COREWIRE_LINK"]
US, THEM = "2001:db8::2", "2001:db8::1"
PORT = 7


class Ipv6World(World):
    """The kernel's end has an IPv6 address too."""

    def __init__(self):
        super().__init__(KIND)
        if KIND != "tap":
            shell("ip", "address", "add", f"{THEM}/64", "dev", "cw1", "nodad")

    def network(self):
        options = [f"--address={US}/64"]
        return options + ([f"--host-address={THEM}/64"] if KIND == "tap" else [])


def connect(port=PORT):
    s = socket.create_connection((US, port), kernel.SECONDS)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def answers():
    try:
        connect().close()
        return True
    except OSError:
        return False


class OverIpv6(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = Ipv6World()
        cls.addClassCleanup(cls.world.close)
        cls.echo = cls.world.start_echo(network=cls.world.network())
        cls.addClassCleanup(cls.echo.end)
        # Its address is asked for first (duplicate address detection): two seconds at most.
        eventually("cw-echo answers over IPv6", answers)

    def tearDown(self):
        self.assertTrue(self.echo.runs(), self.echo.output())

    def test_answers_ping(self):
        for size in (0, 1, 1000, 1452):
            self.assertTrue(kernel.ping6(US, size), f"{size} bytes")

    def test_returns_10_megabytes_and_then_the_end(self):
        size, agree, _ = kernel.send_and_receive_all((US, PORT), 10)
        self.assertEqual((size, agree), (10 << 20, True))

    def test_serves_ipv4_beside_it(self):
        with kernel.connect((OURS, PORT)) as s:
            s.sendall(b"four")
            self.assertEqual(kernel.receive_exactly(s, 4), b"four")

    def test_leaves_an_address_of_the_kernels_to_it_that_has_the_same_group(self):
        if KIND == "tap":
            self.skipTest("nothing is shared with a kernel")
        theirs = "2001:db8:1::2"  # the same last 24 bits
        self.world.at_ours("ip", "address", "add", f"{theirs}/64", "dev", "cw0", "nodad")
        shell("ip", "address", "add", "2001:db8:1::1/64", "dev", "cw1", "nodad")
        for address in (theirs, US):
            shell("ip", "-6", "neigh", "flush", "dev", "cw1")
            self.assertTrue(kernel.ping6(address), f"who asks for {address} anew finds it")

    def test_refuses_a_closed_port(self):
        self.assertTrue(kernel.refused(lambda: connect(99)))

    def test_returns_datagrams_in_one_piece_and_in_many_and_says_where_nobody_is(self):
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            s.settimeout(kernel.SECONDS)
            s.connect((US, PORT))
            for size in (1, 1452, 1453, 9000, 65_507):
                sent = os.urandom(size)
                s.send(sent)
                self.assertEqual(s.recv(1 << 16), sent, f"{size} bytes")
            s.connect((US, 99))
            s.send(b"anybody?")
            self.assertTrue(kernel.refused(lambda: s.recv(100)))


class TheKernelServes(unittest.TestCase):
    """On a cable of its own: two programs of ours can't have one address."""

    def test_streams_and_datagrams(self):
        self.addCleanup((world := Ipv6World()).close)
        for arguments in (["--size=65536", "--pipeline=4", "--count=50"], ["--udp", "--size=1400", "--count=500"]):
            with Echo() as server:
                client = world.start("cw-pingpong", f"--connect=[{THEM}]:{server.port}", "--json", *arguments, network=world.network())
                self.addCleanup(client.end)
                self.assertEqual(client.wait(60), 0, client.output())
                report = [json.loads(line) for line in client.output().splitlines() if line.startswith("{")]
                self.assertEqual([r["errors"] for r in report], [0], client.output())


class Echo:
    """The kernel's server at any IPv6 address, TCP and UDP, one connection."""

    def __enter__(self):
        self._listener = socket.create_server(("::", 0), family=socket.AF_INET6)
        self.port = self._listener.getsockname()[1]
        self._datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self._datagrams.bind(("::", self.port))
        for serve in (self._streams, self._echo_datagrams):
            threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()
        self._datagrams.close()

    def _streams(self):
        try:
            with self._listener.accept()[0] as peer:
                while data := peer.recv(1 << 16):
                    peer.sendall(data)
        except OSError:
            pass  # closed: nobody has called

    def _echo_datagrams(self):
        try:
            while True:
                data, sender = self._datagrams.recvfrom(1 << 16)
                self._datagrams.sendto(data, sender)
        except OSError:
            pass  # closed
