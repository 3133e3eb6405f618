"""Our address comes from a DHCP server of others', in the peer's namespace: busybox's udhcpd, and dnsmasq for IPv6. Over the cable in
$COREWIRE_LINK."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import kernel_side as kernel
from world import BIN, PEER, Program, World, eventually, shell, stop

KIND = os.environ["COREWIRE_LINK"]
CORES = int(os.environ.get("COREWIRE_CORES", "1"))
GIVEN = "192.0.2.77"
LEASE = 6  # seconds: renewed after three
RELEASE, REQUEST = 7, 3
BUSYBOX = shutil.which("busybox")
DNSMASQ = shutil.which("dnsmasq", path=os.environ["PATH"] + ":/usr/sbin")
ROUTER6, GIVEN6 = "2001:db8::1", "2001:db8::100"


class Sniffer:
    """The types of the DHCP messages that clients have sent, in order, by what stands at the kernel's end of the cable."""

    def __init__(self, interface):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self._socket.bind((interface, 0))
        self._socket.setblocking(False)
        self._types = []

    def types(self):
        while True:
            try:
                frame = self._socket.recv(2048)
            except BlockingIOError:
                return self._types
            except OSError:  # the device has gone with its program: said once, and what came before is there still
                continue
            udp = frame[34:]
            if frame[23] == 17 and udp[2:4] == b"\0\x43":
                options = udp[8 + 240:]
                self._types.append(options[options.index(b"\x35\x01") + 2])

    def close(self):
        self._socket.close()


class Dhcp(unittest.TestCase):
    def setUp(self):
        if BUSYBOX is None:
            self.skipTest("there is no busybox")
        if os.cpu_count() < CORES:
            self.skipTest("this machine has too few cores")
        self.world = World(KIND, queues=CORES)
        self.addCleanup(self.world.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        network = ["--net=tap", f"--host-address={PEER}/24"] if KIND == "tap" else ["--net=xdp", f"--xdp-mode={KIND}"]
        if KIND != "tap":
            self.serve("cw1")
        self.echo = Program([*self.world._at_ours(), os.path.join(BIN, "cw-echo"), *network, "--interface=cw0", "--address=dhcp",
                             f"--cores={CORES}"])
        self.addCleanup(self.echo.end)
        if KIND == "tap":
            eventually("the tap device is up", lambda: self.echo.runs() and b"LOWER_UP" in subprocess.run(
                ["ip", "link", "show", "cw0"], capture_output=True).stdout)
            self.serve("cw0")
        self.echo.wait_for_line("cw-echo: ")

    def serve(self, interface):
        path = os.path.join(self.folder, "conf")
        with open(path, "w") as conf:
            conf.write(f"interface {interface}\nstart {GIVEN}\nend {GIVEN}\nmin_lease 4\nmax_leases 1\nlease_file {self.folder}/leases\n"
                       f"pidfile {self.folder}/pid\noption subnet 255.255.255.0\noption router {PEER}\noption mtu 1400\n"
                       f"option lease {LEASE}\n")
        open(os.path.join(self.folder, "leases"), "w").close()
        self.sniffer = Sniffer(interface)
        self.addCleanup(self.sniffer.close)
        self.server = Program([BUSYBOX, "udhcpd", "-f", "-a", "1", path])
        self.addCleanup(self.server.end)

    def test_serves_on_the_address_renews_it_and_gives_it_back(self):
        peers = [kernel.connect((GIVEN, 7)) for _ in range(16 * CORES)]  # each shard has some
        for peer in peers:
            self.addCleanup(peer.close)
        for turn in range(2):
            for peer in peers:
                peer.sendall(b"hello")
                self.assertEqual(kernel.receive_exactly(peer, 5), b"hello")
            if turn == 0:
                eventually("the lease is renewed", lambda: self.sniffer.types().count(REQUEST) >= 2, LEASE)
        self.assertEqual(stop(self.echo), 0, self.echo.output())
        eventually("the address is given back", lambda: RELEASE in self.sniffer.types(), 5)
        self.assertEqual(self.sniffer.types().count(REQUEST), 2)


class Dhcp6(unittest.TestCase):
    """A router that says prefix and DHCPv6 server; on xdp the kernel beside us hears it as well."""

    def setUp(self):
        if DNSMASQ is None or not os.path.exists("/proc/sys/net/ipv6"):
            self.skipTest("needs dnsmasq and a kernel with IPv6")
        self.cores = min(2, os.cpu_count())
        self.world = World(KIND, queues=self.cores)
        self.addCleanup(self.world.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.leases = os.path.join(folder.name, "leases")
        if KIND != "tap":
            shell("ip", "address", "add", f"{ROUTER6}/64", "dev", "cw1", "nodad")
            shell("ethtool", "-K", "cw1", "tso", "off", "gso", "off")
            self.route("cw1")
        self.start()
        if KIND == "tap":
            eventually("the tap device is up", lambda: self.echo.runs() and b"LOWER_UP" in subprocess.run(
                ["ip", "link", "show", "cw0"], capture_output=True).stdout)
            self.route("cw0")
        self.echo.wait_for_line("cw-echo: ")

    def start(self):
        network = ["--net=tap", f"--address={ROUTER6}2/64", f"--host-address={ROUTER6}/64"] if KIND == "tap" else [
            "--net=xdp", f"--xdp-mode={KIND}"]
        self.echo = Program([*self.world._at_ours(), os.path.join(BIN, "cw-echo"), *network, "--interface=cw0", "--slaac",
                             f"--cores={self.cores}"])
        self.addCleanup(self.echo.end)

    def route(self, interface):
        self.server = Program([DNSMASQ, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", f"--interface={interface}",
                               "--user=root", "--enable-ra", f"--dhcp-range={GIVEN6},{GIVEN6},slaac,64,2m",
                               f"--dhcp-leasefile={self.leases}", "--pid-file="])
        self.addCleanup(self.server.end)

    def leased(self):
        with open(self.leases) as leases:
            return GIVEN6 in leases.read()

    def made_address(self):
        """What we have made of the router's prefix, as we say it."""
        return re.findall(r"a router's prefix gives us ([0-9a-f:]+)", self.echo.output())[-1]

    def test_serves_on_the_address_that_a_router_said_is_leased_and_gives_it_back(self):
        def connects():
            """To both addresses on every shard: each asks by itself whether somebody has the one that it made, and listens then."""
            try:
                for address in (GIVEN6, self.made_address()):
                    for _ in range(16):
                        socket.create_connection((address, 7), 1).close()
                return True
            except (OSError, IndexError):
                return False
        eventually("both addresses answer", connects)
        self.assertTrue(self.leased())
        for address in (GIVEN6, self.made_address()):
            for _ in range(16):  # each shard has some
                with socket.create_connection((address, 7), 5) as peer:
                    peer.sendall(b"hello")
                    self.assertEqual(kernel.receive_exactly(peer, 5), b"hello")
        if KIND != "tap":  # the advertisement was not taken from the kernel, which has an address of its own by it
            eventually("the kernel beside us is configured, too",
                       lambda: "2001:db8:" in self.world.at_ours("ip", "-6", "address", "show", "dev", "cw0", "dynamic"))
        self.assertEqual(stop(self.echo), 0, self.echo.output())
        eventually("the address is given back", lambda: not self.leased(), 5)

    def test_an_address_that_somebody_has_is_not_used(self):
        if KIND == "tap" or not os.path.exists("/etc/machine-id"):
            self.skipTest("without a machine-id addresses are new ones at each start; and the tap goes with its program")
        first = self.made_address()
        self.assertEqual(stop(self.echo), 0, self.echo.output())
        shell("ip", "address", "add", f"{first}/64", "dev", "cw1", "nodad")
        self.start()
        self.echo.wait_for_line("cw-echo: ")
        self.assertIn(f"another host has the address {first}", self.echo.output())
        self.assertNotEqual(self.made_address(), first)
