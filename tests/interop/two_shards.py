"""Two shards serve one address: whichever queue and shard a frame comes in on, its connection is served."""
import os
import unittest

import kernel_side as kernel
from world import OURS, World, cannot, stop

KIND = os.environ["COREWIRE_LINK"]
ECHO = (OURS, 7)
CONNECTIONS = 64


class TwoShards(unittest.TestCase):
    def setUp(self):
        if os.cpu_count() < 2:
            cannot("this machine has one core")
        self.world = World(KIND, queues=2)
        self.addCleanup(self.world.close)
        self.echo = self.world.start_echo(cores=2)
        self.addCleanup(self.echo.end)

    def test_serves_on_both_shards_when_it_says_that_it_serves(self):
        for _ in range(32):
            kernel.connect(ECHO).close()

    def test_serves_64_connections_at_once(self):
        peers = [kernel.connect(ECHO) for _ in range(CONNECTIONS)]
        for peer in peers:
            self.addCleanup(peer.close)
        for turn in range(20):
            for number, peer in enumerate(peers):
                peer.sendall(b"turn %d of %d" % (turn, number))
            for number, peer in enumerate(peers):
                expected = b"turn %d of %d" % (turn, number)
                self.assertEqual(kernel.receive_exactly(peer, len(expected)), expected)

    def test_answers_pings_and_datagrams_of_all_sizes(self):
        self.assertTrue(kernel.ping(OURS))
        self.assertTrue(kernel.ping(OURS, 4000))
        for number in range(CONNECTIONS):
            with kernel.datagrams_to(ECHO) as s:
                for size in (100, 4000):
                    sent = bytes([number]) * size
                    s.send(sent)
                    self.assertEqual(s.recv(1 << 16), sent)

    def test_returns_megabytes_on_several_connections(self):
        for _ in range(4):
            self.assertEqual(kernel.send_and_receive_all(ECHO, 10)[:2], (10 << 20, True))

    def test_ends_in_order(self):
        self.assertEqual(stop(self.echo), 0, self.echo.output())
