"""The kernel serves, and cw-pingpong is the client: it checks every byte of every reply."""
import json
import os
import time
import unittest

import kernel_side as kernel
from world import OURS, PEER, World, show

KIND = os.environ["COREWIRE_LINK"]


class WeCall(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kernel.allow_many_descriptors()

    def setUp(self):
        self.world = World(KIND)
        self.addCleanup(self.world.close)

    def serve(self, behaviour="echo"):
        """On tap the kernel's address is there only with our program: any address will do."""
        server = kernel.Server("0.0.0.0", behaviour)
        self.addCleanup(server.close)
        return server

    def call(self, port, *arguments, seconds=60):
        """cw-pingpong to the kernel's port: (exit status, output)."""
        client = self.world.start("cw-pingpong", f"--connect={PEER}:{port}", "--json", *arguments)
        self.addCleanup(client.end)
        return client.wait(seconds), client.output()

    def assert_plays(self, port, *arguments):
        status, output = self.call(port, *arguments)
        self.assertEqual(status, 0, output)
        reports = [line for line in output.splitlines() if line.startswith("{")] # beside it, the log on standard error
        self.assertEqual(len(reports), 1, output)
        report = json.loads(reports[0])
        self.assertEqual(report["errors"], 0, output)
        return report

    def test_sends_and_receives_100_megabytes(self):
        server = self.serve()
        began = time.monotonic()
        self.assert_plays(server.port, "--size=65536", "--pipeline=8", "--count=1600")
        self.assertEqual(server.bytes, 1600 * 65536)
        show(f"100 MiB there and back in {time.monotonic() - began:.2f} s")

    def test_streams_one_way_and_hears_the_answer_after_its_end(self):
        server = self.serve("tally")
        self.assert_plays(server.port, "--bulk", "--size=1400", "--duration=1")
        self.assertGreater(server.bytes, 1 << 20)
        show(f"{server.bytes / 1e6:.0f} MB one way in about a second")

    def test_opens_a_thousand_connections(self):
        server = self.serve()
        self.assert_plays(server.port, "--connections=1000", "--count=5000")
        self.assertEqual(server.accepted, 1000)

    def test_plays_datagrams(self):
        server = self.serve()
        self.assert_plays(server.port, "--udp", "--size=1400", "--count=2000")

    def test_hears_that_a_connection_is_refused(self):
        port = self.closed_port()
        status, output = self.call(port, "--count=1")
        self.assertNotEqual(status, 0, output)
        self.assertIn("refused", output.lower())

    def test_hears_that_a_udp_port_is_unreachable(self):
        port = self.closed_port()
        status, output = self.call(port, "--udp", "--count=1")
        self.assertNotEqual(status, 0, output)
        self.assertIn("refused", output.lower())

    def test_hears_of_a_reset_in_the_middle(self):
        server = self.serve("reset")
        status, output = self.call(server.port, "--count=100")
        self.assertNotEqual(status, 0, output)
        self.assertIn("reset", output.lower())

    def closed_port(self):
        server = kernel.Server("0.0.0.0")
        server.close()
        return server.port
