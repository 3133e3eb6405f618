"""We are in VLAN 7. The other end is, in turn: a socket that sees and makes every byte of a frame, the kernel's VLAN
interface (where the kernel has such a thing), and our own client."""
import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
import time
import unittest

import kernel_side as kernel
from world import BIN, LONG, OURS, PEER, World, cannot, eventually, shell

KIND = os.environ["COREWIRE_LINK"]
ECHO = (OURS, 7)
FAR = "cw0" if KIND == "tap" else "cw1"  # the kernel's end of the cable
OUTGOING, SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 4, 263, 8, 1 << 4
ASKERS = itertools.count()
SILENCE = 0.3  # seconds in which an answer would have come: it takes 0.0002


def tag(vlan, priority=0):
    return struct.pack("!HH", 0x8100, priority << 13 | vlan)


class Wire:
    """Every frame that arrives at an interface, with the tag that it had; and frames as we like them."""

    def __init__(self, interface):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.bind((interface, 0))
        name = struct.pack("256s", interface.encode())
        self.mac = fcntl.ioctl(self._socket, 0x8927, name)[18:24]  # SIOCGIFHWADDR
        self.peer = b"\xff" * 6
        self.us = PEER  # whom they know

    def close(self):
        self._socket.close()

    def forget(self):
        """What has come until now answers nothing that is asked later."""
        self._socket.settimeout(0)
        try:
            while True:
                self._socket.recv(1)
        except BlockingIOError:
            pass

    def send(self, tags, kind, payload):
        self.forget()
        self._socket.send(self.peer + self.mac + tags + struct.pack("!H", kind) + payload)

    def answers(self, wanted, seconds):
        """(tag or None, payload of IP or ARP) of the first frame that `wanted` accepts; None after so many seconds."""
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                frame, extra, _, source = self._socket.recvmsg(1 << 16, 100)
            except TimeoutError:
                return None
            if source[2] == OUTGOING:
                continue
            at, control = 14, None
            for level, kind, data in extra:  # the kernel has taken the tag out of the bytes
                status, _, _, _, _, tci, protocol = struct.unpack("IIIHHHH", data[:20])
                if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and status & VLAN_VALID:
                    control = (protocol, tci)
            if frame[12:14] == b"\x81\x00":
                at, control = 18, struct.unpack("!HH", frame[12:16])
            kind = struct.unpack("!H", frame[at - 2:at])[0]
            if wanted(kind, frame[at:]):
                return control, frame
        return None

    def ask(self, tags, address=OURS, seconds=SILENCE):
        """Who has that address? The reply's tag and frame, or None. Each question is somebody else's, so that no late answer is another's."""
        asker = f"192.0.2.{10 + next(ASKERS) % 200}"
        self.send(tags, 0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + self.mac + socket.inet_aton(asker) + bytes(6) +
                  socket.inet_aton(address))
        answer = self.answers(lambda kind, payload: kind == 0x0806 and payload[6:8] == b"\0\2" and
                              payload[14:18] == socket.inet_aton(address) and payload[24:28] == socket.inet_aton(asker), seconds)
        if answer is not None:
            self.us = asker
        return answer

    def echo(self, tags, data, seconds=SILENCE):
        """A UDP datagram to our echo; the reply's tag and frame, or None."""
        udp = struct.pack("!HHHH", 40000, 7, 8 + len(data), 0) + data
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
        addresses = socket.inet_aton(self.us) + socket.inet_aton(OURS)
        total = struct.pack("!H", kernel.internet_checksum(head + addresses))
        self.send(tags, 0x0800, head[:10] + total + addresses + udp)
        return self.answers(lambda kind, ip: kind == 0x0800 and ip[9] == 17 and ip[28:28 + len(data)] == data, seconds)


class InVlan7(unittest.TestCase):
    """With our echo in VLAN 7."""

    @classmethod
    def setUpClass(cls):
        cls.world = World(KIND)
        cls.addClassCleanup(cls.world.close)
        cls.echo = cls.world.start_echo(network=["--vlan=7"])
        cls.addClassCleanup(cls.echo.end)


class TaggedFrames(InVlan7):
    def setUp(self):
        self.wire = Wire(FAR)
        self.addCleanup(self.wire.close)
        control, frame = eventually("an answer in VLAN 7", lambda: self.wire.ask(tag(7)))
        self.assertEqual(control, (0x8100, 7))  # priority 0
        self.wire.peer = frame[6:12]

    def tearDown(self):
        self.assertTrue(self.echo.runs(), self.echo.output())

    def test_answers_in_its_vlan_and_nowhere_else(self):
        for priority in (1, 7):
            self.assertEqual(self.wire.ask(tag(7, priority), seconds=LONG)[0], (0x8100, 7))
        for other in (b"", tag(0), tag(8), tag(7 << 4), tag(4095), tag(7) + tag(7)):
            self.assertIsNone(self.wire.ask(other), other)

    def test_datagrams_as_long_as_the_mtu_pass_both_ways(self):
        for size in (1, 18, 1000, 1472):
            control, frame = self.wire.echo(tag(7), os.urandom(size), LONG)
            self.assertEqual(control, (0x8100, 7))
            if len(frame) > 64:
                self.assertEqual(len(frame), 14 + 28 + size)
        for other in (b"", tag(0), tag(8)):
            self.assertIsNone(self.wire.echo(other, b"elsewhere: " + other.hex().encode()), other)

    def test_leaves_the_kernel_what_is_not_of_its_vlan(self):
        if KIND == "tap":
            self.skipTest("a tap device is all ours")
        self.world.at_ours("ip", "address", "add", f"{OURS}/32", "dev", "cw0")
        self.addCleanup(self.world.at_ours, "ip", "address", "del", f"{OURS}/32", "dev", "cw0")
        self.assertTrue(kernel.ping(OURS))  # untagged: the kernel's own stack answers
        self.assertEqual(self.wire.ask(b"", seconds=LONG)[0], None)
        self.assertEqual(self.wire.ask(tag(7), seconds=LONG)[0], (0x8100, 7))

    def test_our_client_talks_to_our_server(self):
        if KIND == "tap":
            self.skipTest("the other end of a tap device is the kernel")
        client = [os.path.join(BIN, "cw-pingpong"), "--net=xdp", f"--xdp-mode={KIND}", "--interface=cw1", "--address=192.0.2.9/24",
                  "--cores=1", "--connect", f"{OURS}:7", "--json"]
        for shape in (["--size=64", "--count=2000"], ["--size=60000", "--count=50"], ["--udp", "--size=1400", "--count=200"]):
            done = subprocess.run([*client, "--vlan=7", *shape], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["errors"], 0)


class KernelInterface(InVlan7):
    """The kernel's own idea of a VLAN."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        made = subprocess.run(["ip", "link", "add", "link", FAR, "name", "cw.7", "type", "vlan", "id", "7"], capture_output=True, text=True)
        if made.returncode != 0:
            cannot(f"this kernel makes no VLAN interfaces: {made.stderr.strip()}")
        if KIND != "tap":  # tags in the bytes of the frame, not beside them, where XDP would not see them
            shell("ip", "address", "flush", "dev", FAR)
            shell("ethtool", "-K", FAR, "txvlan", "off")
        shell("ip", "address", "add", f"{PEER}/24", "dev", "cw.7")
        shell("ip", "link", "set", "cw.7", "up")

    def test_returns_megabytes_pings_and_datagrams(self):
        self.assertTrue(kernel.ping(OURS))
        self.assertTrue(kernel.ping(OURS, 4000))
        self.assertEqual(kernel.send_and_receive_all(ECHO, 20)[:2], (20 << 20, True))
        with kernel.datagrams_to(ECHO) as s:
            for size in (1, 1472, 4000):
                s.send(bytes(size))
                self.assertEqual(len(s.recv(1 << 16)), size)

    def test_serves_a_hundred_short_connections(self):
        for number in range(100):
            with kernel.connect(ECHO) as s:
                s.sendall(b"%d" % number)
                self.assertEqual(kernel.receive_exactly(s, len(str(number))), b"%d" % number)
