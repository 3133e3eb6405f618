"""We serve with cw-echo, and the kernel is the client."""
import os
import signal
import socket
import subprocess
import time
import unittest

import kernel_side as kernel
from world import BEYOND, LONG, OURS, World, eventually, shell, show, stop

KIND = os.environ["COREWIRE_LINK"]
ECHO = (OURS, 7)
CLOSED = (OURS, 99)
# A round of a sanitizer's build takes several times as long, and the most where nothing of it is in a cache, as after a sleep.
IDLE_SHARE = 0.05 if os.environ.get("COREWIRE_SANITIZE") else 0.01
IDLE_WAKE_UPS = 40  # a second, of all threads: the shard's, for metrics and for timers, and the stall detector's after it


def is_idle(share, wake_ups):
    return share <= IDLE_SHARE and wake_ups <= IDLE_WAKE_UPS


class KernelCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kernel.allow_many_descriptors()
        cls.world = World(KIND)
        cls.addClassCleanup(cls.world.close)
        cls.echo = cls.world.start_echo()
        cls.addClassCleanup(cls.echo.end)

    def tearDown(self):
        self.assertTrue(self.echo.runs(), self.echo.output())

    def talks(self, text=b"still there"):
        with kernel.connect(ECHO) as s:
            s.sendall(text)
            self.assertEqual(kernel.receive_exactly(s, len(text)), text)

    def test_answers_pings_of_every_size(self):
        for size in (0, 1, 56, 1472, 1473, 4000):
            self.assertTrue(kernel.ping(OURS, size), f"{size} bytes")

    def test_returns_100_megabytes_and_then_the_end(self):
        size, agree, seconds = kernel.send_and_receive_all(ECHO, 100)
        self.assertEqual(size, 100 << 20)
        self.assertTrue(agree, "other bytes came back")
        show(f"100 MiB there and back in {seconds:.2f} s")

    def test_answers_plain_nc(self):
        text = b"".join(b"line %d\n" % i for i in range(20_000))
        done = subprocess.run(["nc", "-N", "-w", "20", ECHO[0], str(ECHO[1])], input=text, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, text)

    def test_serves_a_kernel_that_computes_its_checksums(self):
        if KIND == "tap":
            self.skipTest("a tap device is told which checksums to compute")
        shell("ethtool", "-K", "cw1", "tx", "off")
        self.addCleanup(shell, "ethtool", "-K", "cw1", "tx", "on")
        size, agree, _ = kernel.send_and_receive_all(ECHO, 20)
        self.assertEqual((size, agree), (20 << 20, True))
        with kernel.datagrams_to(ECHO) as s:
            s.send(b"checked")
            self.assertEqual(s.recv(100), b"checked")

    def test_serves_a_thousand_short_connections(self):
        began = time.monotonic()
        for number in range(1000):
            text = b"connection %d" % number
            with kernel.connect(ECHO) as s:
                s.sendall(text)
                self.assertEqual(kernel.receive_exactly(s, len(text)), text)
        show(f"1,000 connections in {time.monotonic() - began:.2f} s")

    def test_sends_everything_after_the_client_has_shut_down(self):
        sent = kernel.PATTERN[:200_000]
        with kernel.connect(ECHO) as s:
            s.sendall(sent)
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(kernel.receive_exactly(s, len(sent)), sent)
            self.assertEqual(s.recv(1), b"", "and then the end")

    def test_has_urgent_bytes_in_line(self):
        with kernel.connect(ECHO) as s:  # RFC 6093 6: a mark in the stream, that takes no byte out of it
            s.sendall(b"before")
            s.send(b"!", socket.MSG_OOB)
            s.sendall(b"after")
            s.send(b"several", socket.MSG_OOB)
            s.shutdown(socket.SHUT_WR)
            everything = b"before!afterseveral"
            self.assertEqual(kernel.receive_exactly(s, len(everything)), everything)
            self.assertEqual(s.recv(1), b"", "and then the end")

    def test_goes_on_after_resets_in_the_middle(self):
        for _ in range(20):
            s = kernel.connect(ECHO)
            s.sendall(kernel.PATTERN[:100_000])
            s.recv(1)
            kernel.reset(s)
        self.talks()

    def test_refuses_a_closed_tcp_port(self):
        self.assertTrue(kernel.refused(lambda: kernel.connect(CLOSED)))

    def test_says_that_a_udp_port_is_unreachable(self):
        with kernel.datagrams_to(CLOSED) as s:
            s.send(b"anybody?")
            self.assertTrue(kernel.refused(lambda: s.recv(100)))

    def test_returns_datagrams_in_one_piece_and_in_many(self):
        with kernel.datagrams_to(ECHO) as s:
            for size in (1, 1472, 1473, 9000, 65_507):
                sent = os.urandom(size)
                s.send(sent)
                self.assertEqual(s.recv(1 << 16), sent, f"{size} bytes")

    def test_leaves_the_kernel_what_is_the_kernels(self):
        if KIND == "tap":
            self.skipTest("our end of a tap device has no kernel behind it")
        self.assertTrue(kernel.ping(BEYOND), "the kernel behind cw0 answers for its own address")
        self.assertTrue(kernel.refused(lambda: kernel.connect((BEYOND, 7))), "and its ports are not ours")

    def test_uses_no_processor_when_idle(self):
        self.talks()
        windows = []
        while len(windows) < 3 and not any(is_idle(*window) for window in windows):  # a busy machine adds something now and then
            seconds, wake_ups, began = self.echo.processor_seconds(), self.echo.wake_ups(), time.monotonic()
            time.sleep(3)  # the time that is measured
            took = time.monotonic() - began
            windows.append(((self.echo.processor_seconds() - seconds) / took, (self.echo.wake_ups() - wake_ups) / took))
            show(f"idle: {windows[-1][0] * 100:.2f} % of a core, woken {windows[-1][1]:.1f} times a second")
        self.assertTrue(is_idle(*windows[-1]), windows)
        self.talks(b"awake again")


class Sockperf(unittest.TestCase):
    def play(self, *arguments):
        world = World(KIND)
        self.addCleanup(world.close)
        echo = world.start_echo("--sockperf")
        self.addCleanup(echo.end)
        done = subprocess.run(["sockperf", "ping-pong", "-i", OURS, "-p", "7", "-t", "3", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0", done.stdout)
        median = [line.split("=")[1].strip() for line in done.stdout.splitlines() if "percentile 50.000" in line]
        self.assertEqual(len(median), 1, done.stdout)
        show(f"sockperf ping-pong {' '.join(arguments)}: half a round trip, median {median[0]} us")
        self.assertEqual(stop(echo), 0, echo.output())

    def test_plays_over_tcp(self):
        self.play("--tcp")

    def test_plays_over_udp(self):
        self.play()


class Endings(unittest.TestCase):
    def setUp(self):
        self.world = World(KIND)
        self.addCleanup(self.world.close)

    def traces(self):
        """What the running program has put into its namespace: the tap device, or the XDP program on cw0."""
        return "cw0" in self.world.devices_of_ours() if KIND == "tap" else self.world.attached_programs()

    def assert_nothing_is_left(self):
        eventually("the device or XDP program is gone", lambda: not self.traces())

    def assert_serves(self, *options):
        """Starts cw-echo at once, talks to it, leaves the connection open. Both of them."""
        echo = self.world.start_echo(*options)
        self.addCleanup(echo.end)
        s = kernel.connect(ECHO)
        self.addCleanup(s.close)
        s.sendall(b"hello")
        self.assertEqual(kernel.receive_exactly(s, 5), b"hello")
        return echo, s

    def test_killed_it_leaves_nothing_and_starts_again(self):
        for _ in range(3):
            echo, _ = self.assert_serves()
            self.assertTrue(self.traces(), "what is to be gone afterwards was there")
            self.assertEqual(stop(echo, signal.SIGKILL), -signal.SIGKILL)
            self.assert_nothing_is_left()
        self.assert_serves()

    def test_asked_to_end_it_ends_in_order(self):
        for signum, has_connection in ((signal.SIGINT, False), (signal.SIGTERM, True)):
            echo, connection = self.assert_serves()
            if not has_connection:
                connection.close()
            began = time.monotonic()
            self.assertEqual(stop(echo, signum), 0, echo.output())
            show(f"{signum.name}: ended after {(time.monotonic() - began) * 1000:.0f} ms")
            self.assert_nothing_is_left()

    def test_asked_to_end_it_closes_a_hundred_idle_connections_at_once(self):
        echo, first = self.assert_serves("--stall-ms=0", "--log-level=file=warn,info")  # which would have lines of their own
        idle = [first] + [kernel.connect(ECHO) for _ in range(99)]
        for s in idle[1:]:
            self.addCleanup(s.close)
            s.sendall(b"hello")
            self.assertEqual(kernel.receive_exactly(s, 5), b"hello")
        began = time.monotonic()
        self.assertEqual(stop(echo), 0, echo.output())
        took = time.monotonic() - began
        show(f"100 idle connections: ended after {took * 1000:.0f} ms")
        self.assertLess(took, 4.0)  # the deadline is 5 s
        self.assertEqual(echo.output().count("\n"), 1, echo.output())  # and nothing was abandoned
        for s in idle:
            self.assertEqual(s.recv(1), b"", "an orderly end")
