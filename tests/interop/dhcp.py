"""Our address comes from a DHCP server of others', in the peer's namespace: busybox's udhcpd, and dnsmasq for IPv6. Over the cable in
$COREWIRE_LINK."""
import ctypes
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

import kernel_side as kernel
from world import BIN, PEER, Program, World, cannot, eventually, shell, stop, without_address_detection

KIND = os.environ["COREWIRE_LINK"]
CORES = int(os.environ.get("COREWIRE_CORES", "1"))
GIVEN = "192.0.2.77"
LEASE = 6  # seconds: renewed after three
SELDOM = 1.5  # seconds: to renew is tried after 2.8 to 3 s; whom the server has not answered by then asks everybody at 5.1 s, or later
RELEASE, REQUEST = 7, 3
BUSYBOX = shutil.which("busybox")
DNSMASQ = shutil.which("dnsmasq", path=os.environ["PATH"] + ":/usr/sbin")
ROUTER6, GIVEN6 = "2001:db8::1", "2001:db8::100"


class Sniffer:
    """The DHCP messages that clients have sent, in order, by what stands at the kernel's end of the cable."""

    # Ethernet with IPv4, UDP, not a later fragment, to port 67: nothing else may fill the socket's buffer.
    FILTER = [(0x28, 0, 0, 12), (0x15, 0, 8, 0x0800), (0x30, 0, 0, 23), (0x15, 0, 6, 17), (0x28, 0, 0, 20), (0x45, 4, 0, 0x1fff),
              (0xb1, 0, 0, 14), (0x48, 0, 0, 16), (0x15, 0, 1, 67), (0x06, 0, 0, 1 << 18), (0x06, 0, 0, 0)]
    SO_ATTACH_FILTER, SO_TIMESTAMPNS = 26, 35

    def __init__(self, interface):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in self.FILTER))
        self._socket.setsockopt(socket.SOL_SOCKET, self.SO_ATTACH_FILTER, struct.pack("HL", len(self.FILTER), ctypes.addressof(code)))
        self._socket.setsockopt(socket.SOL_SOCKET, self.SO_TIMESTAMPNS, 1)
        self._socket.bind((interface, 0))
        self._socket.setblocking(False)
        self._messages = []

    def messages(self):
        """Of each: its type, the address that the client says it has (ciaddr), and the kernel's time of it in seconds."""
        while True:
            try:
                frame, control, _, _ = self._socket.recvmsg(2048, 64)
            except BlockingIOError:
                return self._messages
            except OSError:  # the device has gone with its program: said once, and what came before is there still
                continue
            seconds, nanoseconds = next(struct.unpack("qq", data) for _, kind, data in control if kind == self.SO_TIMESTAMPNS)
            message = frame[14 + (frame[14] & 15) * 4 + 8:]
            options = message[240:]
            self._messages.append((options[options.index(b"\x35\x01") + 2], socket.inet_ntoa(message[12:16]), seconds + nanoseconds / 1e9))

    def requests(self):
        return [message for message in self.messages() if message[0] == REQUEST]

    def close(self):
        self._socket.close()


class Dhcp(unittest.TestCase):
    def setUp(self):
        if BUSYBOX is None:
            cannot("there is no busybox")
        if os.cpu_count() < CORES:
            cannot("this machine has too few cores")
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
                eventually("the lease is renewed", lambda: any(has == GIVEN for _, has, _ in self.sniffer.requests()))
        self.assertEqual(stop(self.echo), 0, self.echo.output())
        eventually("the address is given back", lambda: any(kind == RELEASE for kind, _, _ in self.sniffer.messages()))
        times = [time for _, _, time in self.sniffer.requests()]
        for earlier, later in zip(times, times[1:]):
            self.assertGreater(later - earlier, SELDOM, self.sniffer.messages())


class Dhcp6(unittest.TestCase):
    """A router that says prefix and DHCPv6 server, and is there before us; on xdp the kernel beside us hears it as well. A tap device is
    made before our program, and outlives it: dnsmasq takes no message of a device that has gone, and our goodbye is said once."""

    def setUp(self):
        if DNSMASQ is None or not os.path.exists("/proc/sys/net/ipv6"):
            cannot("needs dnsmasq and a kernel with IPv6")
        self.cores = min(2, os.cpu_count())
        self.world = World(KIND, queues=self.cores)
        self.addCleanup(self.world.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.leases = os.path.join(folder.name, "leases")
        self.device = device = "cw0" if KIND == "tap" else "cw1"
        if KIND == "tap":
            shell("ip", "tuntap", "add", device, "mode", "tap", "vnet_hdr", *(["multi_queue"] if self.cores > 1 else []))
            without_address_detection(device)
            shell("ip", "link", "set", device, "up")
        else:
            shell("ethtool", "-K", device, "tso", "off", "gso", "off")
        shell("ip", "address", "add", f"{ROUTER6}/64", "dev", device, "nodad")
        self.route(device)
        self.start()
        self.echo.wait_for_line("cw-echo: ")

    def start(self):
        network = ["--net=tap", f"--address={ROUTER6}2/64"] if KIND == "tap" else ["--net=xdp", f"--xdp-mode={KIND}"]
        self.echo = Program([*self.world._at_ours(), os.path.join(BIN, "cw-echo"), *network, "--interface=cw0", "--slaac",
                             f"--cores={self.cores}"])
        self.addCleanup(self.echo.end)

    def route(self, interface):
        self.server = Program([DNSMASQ, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", f"--interface={interface}",
                               "--user=root", "--enable-ra", f"--dhcp-range={GIVEN6},{GIVEN6},slaac,64,2m",
                               f"--dhcp-leasefile={self.leases}", "--pid-file="])
        self.addCleanup(self.server.end)

    def leases_of(self):
        """What dnsmasq writes down. It empties the file first; the line with its own identifier is there once it has leased anything."""
        def written():
            with open(self.leases) as leases:
                text = leases.read()
            return text if "duid " in text else None
        return eventually("dnsmasq writes its leases", written)

    def made_address(self):
        """What we have made of the router's prefix, as we say it."""
        return eventually("a router's prefix gives us an address",
                          lambda: re.findall(r"a router's prefix gives us ([0-9a-f:]+)", self.echo.output()))[-1]

    def test_serves_on_the_address_that_a_router_said_is_leased_and_gives_it_back(self):
        def connects():
            """To both addresses on every shard: each asks by itself whether somebody has the one that it made."""
            try:
                for address in (GIVEN6, self.made_address()):
                    for _ in range(16):
                        kernel.connect((address, 7)).close()
                return True
            except OSError:
                return False
        eventually("both addresses answer", connects, 60)
        self.assertIn(GIVEN6, self.leases_of())
        for address in (GIVEN6, self.made_address()):
            for _ in range(16):  # each shard has some
                with kernel.connect((address, 7)) as peer:
                    peer.sendall(b"hello")
                    self.assertEqual(kernel.receive_exactly(peer, 5), b"hello")
        if KIND != "tap":  # the advertisement was not taken from the kernel, which has an address of its own by it
            eventually("the kernel beside us is configured, too",
                       lambda: "2001:db8:" in self.world.at_ours("ip", "-6", "address", "show", "dev", "cw0", "dynamic"))
        self.assertEqual(stop(self.echo), 0, self.echo.output())
        eventually("the address is given back", lambda: GIVEN6 not in self.leases_of())

    def test_an_address_that_somebody_has_is_not_used(self):
        if not os.path.exists("/etc/machine-id"):
            cannot("without a machine-id addresses are new ones at each start")
        first = self.made_address()
        self.assertEqual(stop(self.echo), 0, self.echo.output())
        shell("ip", "address", "add", f"{first}/64", "dev", self.device, "nodad")
        self.start()
        self.echo.wait_for_line("cw-echo: ")
        self.echo.wait_for_line(f"another host has the address {first}")
        eventually("we make another address", lambda: self.made_address() != first)
