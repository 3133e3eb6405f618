"""We serve on the kernel's own IPv6 address (--shared): our ports are ours, everything else stays the kernel's; both families at once."""
import os
import socket
import subprocess
import sys
import unittest

import kernel_side as kernel
from world import BEYOND, Program, World, eventually, shell, stop

KIND = os.environ["COREWIRE_LINK"]
US, THEM, GATEWAY, FAR = "2001:db8::3", "2001:db8::1", "2001:db8::4", "2001:db8:ffff::1"
ECHO = (US, 7)


class SharedIpv6(unittest.TestCase):
    def setUp(self):
        self.world = World(KIND)
        self.addCleanup(self.world.close)
        shell("ip", "address", "add", f"{THEM}/64", "dev", "cw1", "nodad")
        shell("ethtool", "-K", "cw1", "tso", "off", "gso", "off")
        self.world.at_ours("ip", "address", "add", f"{US}/64", "dev", "cw0", "nodad")

    def start_echo(self, *network):
        echo = self.world.start_echo(network=("--shared", *network))
        self.addCleanup(echo.end)
        return echo

    def assert_echoes(self, to, text=b"there and back"):
        with kernel.connect(to) as s:
            s.sendall(text)
            self.assertEqual(kernel.receive_exactly(s, len(text)), text)

    def test_serves_both_families_beside_the_kernel(self):
        service = Program([*self.world._at_ours(), sys.executable, "-c",
                           "import socket\nl = socket.create_server(('::', 8080), family=socket.AF_INET6)\nprint('ready', flush=True)\n"
                           "while True:\n    p, _ = l.accept()\n    p.sendall(p.recv(100)); p.close()"])
        self.addCleanup(service.end)
        service.wait_for_line("ready")
        echo = self.start_echo()
        for address in (US, BEYOND):
            self.assert_echoes((address, 7))
        size, agree, _ = kernel.send_and_receive_all(ECHO, 10)
        self.assertEqual((size, agree), (10 << 20, True))
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            s.settimeout(kernel.SECONDS)
            s.connect(ECHO)
            s.send(b"datagram")
            self.assertEqual(s.recv(100), b"datagram")
        self.assertTrue(kernel.ping6(US), "the kernel answers pings")
        self.assert_echoes((US, 8080), b"the kernel's")
        self.assertTrue(kernel.refused(lambda: kernel.connect((US, 99))), "and refuses what nobody has")
        for address in (US, "::"):  # its programs don't get our port
            done = subprocess.run([*self.world._at_ours(), sys.executable, "-c",
                                   f"import socket; socket.create_server(('{address}', 7), family=socket.AF_INET6)"],
                                  stderr=subprocess.PIPE, text=True)
            self.assertIn("Address already in use", done.stderr)
        self.assertEqual(stop(echo), 0, echo.output())
        self.assertTrue(kernel.refused(lambda: kernel.connect(ECHO)), "the port is the kernel's again")
        self.assertFalse(self.world.attached_programs())

    def test_serves_on_a_deprecated_address_that_is_named(self):
        self.world.at_ours("ip", "address", "add", "2001:db8::9/128", "dev", "cw0", "nodad", "preferred_lft", "0")
        self.start_echo("--address=2001:db8::9/128")
        self.assert_echoes(("2001:db8::9", 7))

    def test_follows_routes_and_neighbours(self):
        shell("ip", "address", "add", f"{FAR}/128", "dev", "lo", "nodad")
        echo = self.start_echo(f"--address={US}/64")  # of this family alone
        self.assert_echoes(ECHO)
        self.assertTrue(kernel.refused(lambda: kernel.connect((BEYOND, 7))), "of IPv4 nothing was taken")
        self.world.at_ours("ip", "-6", "route", "add", "default", "via", THEM, "dev", "cw0")
        with socket.socket(socket.AF_INET6) as s:
            s.settimeout(kernel.SECONDS)
            s.bind((FAR, 0))
            s.connect(ECHO)
            s.sendall(b"from afar")
            self.assertEqual(kernel.receive_exactly(s, 9), b"from afar")
            # The gateway changes while the connection stands.
            shell("ip", "address", "add", f"{GATEWAY}/64", "dev", "cw1", "nodad")
            self.world.at_ours("ip", "-6", "route", "replace", "default", "via", GATEWAY, "dev", "cw0")
            s.sendall(b"still far")
            self.assertEqual(kernel.receive_exactly(s, 9), b"still far")
        with kernel.connect(ECHO) as s:
            s.sendall(b"before")
            self.assertEqual(kernel.receive_exactly(s, 6), b"before")
            shell("ip", "link", "set", "cw1", "address", "02:00:00:00:77:01")
            self.world.at_ours("ip", "neighbour", "replace", THEM, "lladdr", "02:00:00:00:77:01", "dev", "cw0", "nud", "reachable")
            s.sendall(b"behind")
            self.assertEqual(kernel.receive_exactly(s, 6), b"behind")
            self.world.at_ours("ip", "neighbour", "flush", "dev", "cw0")
            s.sendall(b"after a flush")
            self.assertEqual(kernel.receive_exactly(s, 13), b"after a flush")
        self.world.at_ours("ip", "address", "del", f"{US}/64", "dev", "cw0")
        eventually("that the address has gone is said", lambda: f"the kernel no longer has {US}" in echo.output())

    def test_calls_out_from_the_kernels_address(self):
        with socket.create_server(("::", 0), family=socket.AF_INET6) as listener:
            port = listener.getsockname()[1]
            client = self.world.start("cw-pingpong", f"--connect=[{THEM}]:{port}", "--json", "--count=200", network=("--shared",))
            self.addCleanup(client.end)
            peer, address = listener.accept()
            with peer:
                self.assertEqual(address[0], US)
                while data := peer.recv(1 << 16):
                    peer.sendall(data)
            self.assertEqual(client.wait(), 0, client.output())
            self.assertIn('"errors":0', client.output())
        refused = self.world.start("cw-pingpong", f"--connect=[{THEM}]:99", "--udp", "--count=1", network=("--shared",))
        self.addCleanup(refused.end)  # the ICMPv6 error finds its way to us
        self.assertNotEqual(refused.wait(), 0, refused.output())
        self.assertIn("refused", refused.output().lower())
