"""We serve on the kernel's own address (--shared): our ports are ours, everything else stays the kernel's."""
import os
import signal
import socket
import subprocess
import sys
import unittest

import kernel_side as kernel
from world import BEYOND, PEER, Program, World, cannot, eventually, shell, show, stop

KIND = os.environ["COREWIRE_LINK"]
ECHO = (BEYOND, 7)
FAR, GATEWAY = "198.51.100.1", "192.0.2.4"  # behind a gateway: both are addresses of the peer's

# A service on the kernel's sockets in our namespace: echoes one connection after the other.
KERNEL_SERVICE = """
import socket
listener = socket.create_server(("0.0.0.0", 8080))
print("ready", flush=True)
while True:
    peer, _ = listener.accept()
    with peer:
        while data := peer.recv(65536):
            peer.sendall(data)
"""

# Connections of the kernel's in our namespace, from every 64th of the ports that we choose from: they are asked again and again.
KERNEL_CLIENT = """
import resource, socket, sys
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
peers = []
for port in range(32768, 65536, 64):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20, (sys.argv[3], port))
    s.settimeout(5)
    peers.append(s)
for turn in range(1000000):
    for s in peers:
        s.sendall(b"still here")
    for s in peers:
        got = b""
        while len(got) < 10:
            if not (more := s.recv(10 - len(got))):
                sys.exit("ended")
            got += more
    print("turn", turn, "is over", flush=True)
"""


class SharedAddress(unittest.TestCase):
    queues = cores = 1

    def setUp(self):
        if os.cpu_count() < self.cores:
            cannot("this machine has one core")
        kernel.allow_many_descriptors()
        self.world = World(KIND, queues=self.queues)
        self.addCleanup(self.world.close)

    def start_echo(self, *arguments):
        echo = self.world.start_echo(*arguments, network=("--shared",), cores=self.cores)
        self.addCleanup(echo.end)
        return echo

    def kernel_service(self):
        service = Program([*self.world._at_ours(), sys.executable, "-c", KERNEL_SERVICE])
        self.addCleanup(service.end)
        service.wait_for_line("ready")
        return BEYOND, 8080

    def assert_echoes(self, to, text=b"there and back"):
        with kernel.connect(to) as s:
            s.sendall(text)
            self.assertEqual(kernel.receive_exactly(s, len(text)), text)

    def refusal(self, *network):
        """Exit status 2 and the one line that cw-echo says."""
        program = self.world.start("cw-echo", "--log-level=file=warn,info", "--stall-ms=0", network=("--shared", *network))
        self.addCleanup(program.end)
        self.assertEqual(program.wait(), 2, program.output())
        self.assertEqual(program.output().count("\n"), 1, program.output())
        return program.output()

    def test_serves_clients_beside_the_kernel(self):
        service = self.kernel_service()
        echo = self.start_echo()
        self.assert_echoes(ECHO)
        size, agree, seconds = kernel.send_and_receive_all(ECHO, 20)
        self.assertEqual((size, agree), (20 << 20, True))
        show(f"20 MiB there and back in {seconds:.2f} s")
        with kernel.datagrams_to(ECHO) as s:
            s.send(b"datagram")
            self.assertEqual(s.recv(100), b"datagram")
        self.assertTrue(kernel.ping(BEYOND), "the kernel answers pings")
        self.assert_echoes(service)
        self.assertTrue(kernel.refused(lambda: kernel.connect((BEYOND, 99))), "and refuses what nobody has")
        self.assertEqual(stop(echo), 0, echo.output())
        self.assertTrue(kernel.refused(lambda: kernel.connect(ECHO)), "the port is the kernel's again")
        self.assert_echoes(service)

    def test_serves_300_connections_at_once(self):
        self.start_echo()
        peers = [kernel.connect(ECHO) for _ in range(300)]
        for number, peer in enumerate(peers):
            self.addCleanup(peer.close)
            peer.sendall(b"peer %d" % number)
        for number, peer in enumerate(peers):
            text = b"peer %d" % number
            self.assertEqual(kernel.receive_exactly(peer, len(text)), text)

    def test_killed_it_leaves_nothing_and_starts_again(self):
        for _ in range(2):
            echo = self.start_echo()
            self.assert_echoes(ECHO)
            self.assertTrue(self.world.attached_programs())
            self.assertEqual(stop(echo, signal.SIGKILL), -signal.SIGKILL)
            eventually("the XDP program is gone", lambda: not self.world.attached_programs())
            eventually("the port is the kernel's", lambda: kernel.refused(lambda: kernel.connect(ECHO).close()))

    def test_says_in_one_line_that_the_kernel_has_the_port(self):
        holder = Program([*self.world._at_ours(), sys.executable, "-c",
                          "import socket, time; s = socket.create_server(('0.0.0.0', 7)); print('ready', flush=True); time.sleep(60)"])
        self.addCleanup(holder.end)
        holder.wait_for_line("ready")
        self.assertIn(f"TCP port 7 of {BEYOND} belongs to a program on the kernel's sockets", self.refusal())

    def test_keeps_its_ports_from_the_kernels_programs(self):
        self.start_echo()
        for address in (BEYOND, "0.0.0.0"):
            done = subprocess.run([*self.world._at_ours(), sys.executable, "-c", f"import socket; socket.create_server(('{address}', 7))"],
                                  stderr=subprocess.PIPE, text=True)
            self.assertIn("Address already in use", done.stderr)

    def test_refuses_an_address_that_the_kernel_does_not_have(self):
        self.assertIn("192.0.2.77", self.refusal("--address=192.0.2.77/24"))
        self.assertIn("--gateway", self.refusal("--gateway=192.0.2.1"))
        self.world.at_ours("ip", "address", "flush", "dev", "cw0")
        self.assertIn("ip address add", self.refusal())

    def test_calls_out_from_the_kernels_address(self):
        server = kernel.Server("0.0.0.0")
        self.addCleanup(server.close)
        for options in (["--count=2000"], ["--udp", "--count=500"], ["--connections=100", "--count=1000"]):
            client = self.world.start("cw-pingpong", f"--connect={PEER}:{server.port}", "--json", *options, network=("--shared",))
            self.addCleanup(client.end)
            self.assertEqual(client.wait(), 0, client.output())
            self.assertIn('"errors":0', client.output())

    def test_leaves_the_connections_of_the_kernel_alone(self):
        server = kernel.Server("0.0.0.0")
        self.addCleanup(server.close)
        theirs = Program([*self.world._at_ours(), sys.executable, "-c", KERNEL_CLIENT, PEER, str(server.port), BEYOND])
        self.addCleanup(theirs.end)
        theirs.wait_for_line("turn 0 is over")
        ours = self.world.start("cw-pingpong", f"--connect={PEER}:{server.port}", "--connections=300", "--count=300", "--json",
                                network=("--shared",))
        self.addCleanup(ours.end)
        self.assertEqual(ours.wait(), 0, ours.output())
        self.assertIn('"errors":0', ours.output())
        turns = theirs.output().count("over")
        eventually(theirs.output, lambda: not theirs.runs() or theirs.output().count("over") >= turns + 2)
        self.assertTrue(theirs.runs(), theirs.output())

    def test_hears_that_a_port_is_unreachable(self):
        client = self.world.start("cw-pingpong", f"--connect={PEER}:99", "--udp", "--count=1", network=("--shared",))
        self.addCleanup(client.end)
        self.assertNotEqual(client.wait(), 0, client.output())
        self.assertIn("refused", client.output().lower())

    def test_follows_the_kernels_routes(self):
        shell("ip", "address", "add", f"{FAR}/32", "dev", "lo")
        echo = self.start_echo()
        self.assert_echoes(ECHO)
        self.world.at_ours("ip", "route", "add", f"{FAR}/32", "via", PEER)
        with socket.socket() as s:
            s.settimeout(kernel.SECONDS)
            s.bind((FAR, 0))
            s.connect(ECHO)
            s.sendall(b"from afar")
            self.assertEqual(kernel.receive_exactly(s, 9), b"from afar")
            # The gateway changes while the connection stands.
            shell("ip", "address", "add", f"{GATEWAY}/24", "dev", "cw1")
            self.world.at_ours("ip", "route", "replace", f"{FAR}/32", "via", GATEWAY)
            s.sendall(b"still far")
            self.assertEqual(kernel.receive_exactly(s, 9), b"still far")
        self.assertTrue(echo.runs())

    def test_follows_a_neighbor_that_changes_its_mac(self):
        self.start_echo()
        with kernel.connect(ECHO) as s:
            s.sendall(b"before")
            self.assertEqual(kernel.receive_exactly(s, 6), b"before")
            shell("ip", "link", "set", "cw1", "address", "02:00:00:00:77:01")
            self.world.at_ours("ip", "neighbour", "replace", PEER, "lladdr", "02:00:00:00:77:01", "dev", "cw0", "nud", "reachable")
            s.sendall(b"behind")
            self.assertEqual(kernel.receive_exactly(s, 6), b"behind")

    def test_has_the_kernel_resolve_who_is_not_known(self):
        self.start_echo()
        self.world.at_ours("ip", "neighbour", "flush", "dev", "cw0")
        self.assert_echoes(ECHO)
        for _ in range(3):
            with kernel.connect(ECHO) as s:
                self.world.at_ours("ip", "neighbour", "flush", "dev", "cw0")
                s.sendall(b"after a flush")
                self.assertEqual(kernel.receive_exactly(s, 13), b"after a flush")


class TwoShards(SharedAddress):
    queues = cores = 2
