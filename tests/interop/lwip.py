"""lwIP is the peer: a stack of others' for small devices, with a window of 64 KiB, without SACK and timestamps. Each end in turn is the
server. Over the cable in $COREWIRE_LINK, which a bridge leads to lwIP's own tap device; for that the kernel cuts up and completes what
our end of a tap leaves to offloads. The bridge may need a second to see that an end is there: lwIP and we ask again for addresses.

    [ lwip_peer -- lw0 ] -- bridge -- [ cw0, a tap device -- our program ]
    [ lwip_peer -- lw0 ] -- bridge -- [ cw1 == veth == cw0 -- our program ]
"""
import json
import os
import unittest

from world import OURS, Program, World, shell, show

KIND = os.environ["COREWIRE_LINK"]
LWIP_PEER = os.environ["COREWIRE_LWIP_PEER"]
LWIP = "192.0.2.9"
OURS6, LWIP6 = "2001:db8::2", "2001:db8::9"
OVER_IPV6 = (f"--address={OURS6}/64",)
ECHO, TALLY, RESET, CLOSED = 7, 9, 11, 99
MEGABYTES = 10


def bridged_world():
    world = World(KIND)
    if KIND == "tap":
        shell("ip", "tuntap", "add", "cw0", "mode", "tap", "vnet_hdr")
    shell("ip", "tuntap", "add", "lw0", "mode", "tap")
    shell("ip", "link", "add", "cwbridge", "type", "bridge", "mcast_snooping", "0")
    for device in ("cw0" if KIND == "tap" else "cw1", "lw0"):
        shell("ip", "link", "set", device, "master", "cwbridge", "up")
    shell("ip", "link", "set", "cwbridge", "up")
    return world


def lwip(address, *arguments):
    return Program([LWIP_PEER, "lw0", address, *map(str, arguments)])


class Calls(unittest.TestCase):
    """lwIP calls, and cw-echo serves."""
    options = network = ()
    us, them = OURS, LWIP

    @classmethod
    def setUpClass(cls):
        cls.world = bridged_world()
        cls.addClassCleanup(cls.world.close)
        cls.echo = cls.world.start_echo(*cls.options, network=cls.network)
        cls.addClassCleanup(cls.echo.end)

    def play(self, what, port, *arguments):
        peer = lwip(self.them, what, self.us, port, *arguments)
        self.addCleanup(peer.end)
        self.assertEqual(peer.wait(), 0, peer.output() + self.echo.output())
        self.assertTrue(self.echo.runs(), self.echo.output())
        show(peer.output().strip())


class LwipCalls(Calls):
    def test_gets_10_megabytes_back_after_its_half_close(self):
        self.play("echo", ECHO, 1, MEGABYTES << 20)

    def test_makes_200_short_connections(self):
        self.play("echo", ECHO, 200, 30)

    def test_resets_20_connections_in_the_middle(self):
        self.play("reset", ECHO, 20)

    def test_is_refused_at_a_closed_port(self):
        self.play("refused", CLOSED)

    def test_gets_datagrams_back(self):
        for size in (1, 512, 1472):
            self.play("datagrams", ECHO, 200, size)


class LwipCallsOverIpv6(Calls):
    network = OVER_IPV6
    us, them = OURS6, LWIP6

    def test_gets_10_megabytes_back_after_its_half_close(self):
        self.play("echo", ECHO, 1, MEGABYTES << 20)

    def test_is_refused_at_a_closed_port(self):
        self.play("refused", CLOSED)

    def test_gets_datagrams_back(self):
        self.play("datagrams", ECHO, 200, 1452)


class LwipStreams(Calls):
    options = ("--discard",)

    def test_sends_10_megabytes_one_way_and_hears_the_tally(self):
        self.play("stream", ECHO, MEGABYTES << 20)


class Served(unittest.TestCase):
    """lwIP serves, and cw-pingpong is the client: it checks every byte of every reply."""
    network = ()
    them = LWIP

    @classmethod
    def setUpClass(cls):
        cls.world = bridged_world()
        cls.addClassCleanup(cls.world.close)
        cls.server = lwip(cls.them.strip("[]"), "serve")
        cls.addClassCleanup(cls.server.end)
        cls.server.wait_for_line("serves")
        show(cls.server.output().strip())

    def call(self, port, *arguments):
        client = self.world.start("cw-pingpong", f"--connect={self.them}:{port}", "--json", *arguments, network=self.network)
        self.addCleanup(client.end)
        status = client.wait()
        self.assertTrue(self.server.runs(), self.server.output())
        return status, client.output()

    def assert_plays(self, port, *arguments):
        status, output = self.call(port, *arguments)
        self.assertEqual(status, 0, output)
        reports = [line for line in output.splitlines() if line.startswith("{")]  # beside it, the log on standard error
        self.assertEqual(len(reports), 1, output)
        self.assertEqual(json.loads(reports[0])["errors"], 0, output)

    def assert_fails(self, word, port, *arguments):
        status, output = self.call(port, *arguments)
        self.assertNotEqual(status, 0, output)
        self.assertIn(word, output.lower())


class WeCall(Served):
    def test_sends_and_receives_10_megabytes(self):
        self.assert_plays(ECHO, "--size=65536", "--pipeline=2", f"--count={MEGABYTES << 4}")

    def test_streams_one_way_and_hears_the_answer_after_its_half_close(self):
        self.assert_plays(TALLY, "--bulk", "--size=1400", "--duration=0.5")

    def test_opens_200_connections(self):
        self.assert_plays(ECHO, "--connections=200", "--count=400")

    def test_plays_datagrams(self):
        self.assert_plays(ECHO, "--udp", "--size=1400", "--count=1000")

    def test_hears_that_a_connection_is_refused(self):
        self.assert_fails("refused", CLOSED, "--count=1")

    def test_hears_that_a_udp_port_is_unreachable(self):
        self.assert_fails("refused", CLOSED, "--udp", "--count=1")

    def test_hears_of_a_reset_in_the_middle(self):
        self.assert_fails("reset", RESET, "--count=100")


class WeCallOverIpv6(Served):
    network = OVER_IPV6
    them = f"[{LWIP6}]"

    def test_sends_and_receives_10_megabytes(self):
        self.assert_plays(ECHO, "--size=65536", "--pipeline=2", f"--count={MEGABYTES << 4}")
