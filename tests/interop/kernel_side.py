"""What the kernel does in these tests: clients and servers over its own sockets."""
import errno
import hashlib
import os
import random
import resource
import select
import socket
import struct
import threading
import time

SECONDS = 20.0  # that a socket may keep us waiting

PATTERN = random.Random(7).randbytes(1 << 20)


def allow_many_descriptors():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def connect(to):
    s = socket.create_connection(to, SECONDS)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def datagrams_to(to):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(SECONDS)
    s.connect(to)
    return s


def reset(s):
    """Ends a connection with RST."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def receive_exactly(s, size):
    data = bytearray()
    while len(data) < size and (some := s.recv(size - len(data))):
        data += some
    return bytes(data)


def send_and_receive_all(to, megabytes):
    """Sends, shuts down, and receives until the end meanwhile. (bytes back, checksums agree, seconds)"""
    s = connect(to)
    sent, failed = hashlib.sha256(), []

    def write():
        try:
            for i in range(megabytes):
                block = PATTERN[i % 1000:] + PATTERN[:i % 1000]  # so that no two blocks are alike
                sent.update(block)
                s.sendall(block)
            s.shutdown(socket.SHUT_WR)
        except OSError as e:
            failed.append(e)

    began = time.monotonic()
    writer = threading.Thread(target=write)
    writer.start()
    got, size = hashlib.sha256(), 0
    while block := s.recv(1 << 18):
        got.update(block)
        size += len(block)
    writer.join()
    s.close()
    if failed:
        raise failed[0]
    return size, got.digest() == sent.digest(), time.monotonic() - began


def internet_checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def ping(address, size=56):
    """One ICMP echo request; true if the reply carries the same bytes, and its checksum is right."""
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    s.settimeout(SECONDS)
    identity, number, data = os.getpid() & 0xffff, 1, os.urandom(size)
    head = struct.pack("!BBHHH", 8, 0, 0, identity, number)
    s.sendto(struct.pack("!BBHHH", 8, 0, internet_checksum(head + data), identity, number) + data, (address, 0))
    give_up = time.monotonic() + SECONDS
    with s:
        while time.monotonic() < give_up:
            packet, source = s.recvfrom(1 << 16)
            icmp = packet[(packet[0] & 15) * 4:]
            if source[0] == address and icmp[:2] == b"\0\0" and struct.unpack("!HH", icmp[4:8]) == (identity, number):
                return internet_checksum(icmp) == 0 and icmp[8:] == data
    return False


def ping6(address, size=56, seconds=SECONDS):
    """One echo request (the kernel computes the checksum, and checks the reply's); true if the same bytes come back in time."""
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as s:
        wanted = struct.pack("!HH", os.getpid() & 0xffff, 1) + os.urandom(size)
        s.sendto(struct.pack("!BBH", 128, 0, 0) + wanted, (address, 0))
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            s.settimeout(left)
            try:
                packet, _ = s.recvfrom(1 << 16)
            except TimeoutError:
                break
            if packet[0] == 129 and packet[4:] == wanted:
                return True
    return False


def refused(action):
    """True if action() fails with ECONNREFUSED."""
    try:
        action()
    except OSError as e:
        if e.errno == errno.ECONNREFUSED:
            return True
        if not isinstance(e, TimeoutError):
            raise
    return False


class Server:
    """A server of the kernel's on one port, TCP and UDP, in one thread. `behaviour` of a TCP connection: `echo`,
    `tally` (what cw-echo --discard does) or `reset` (after the first bytes)."""

    def __init__(self, address, behaviour="echo"):
        self.behaviour = behaviour
        self.accepted = self.bytes = 0
        self.failure = None
        self._listener = socket.create_server((address, 0), backlog=2048)
        self.port = self._listener.getsockname()[1]
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind((address, self.port))
        self._peers = {}  # socket: bytes to send back
        self._stopped = os.eventfd(0)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        os.eventfd_write(self._stopped, 1)
        self._thread.join(SECONDS)
        for s in [self._listener, self._datagrams, *self._peers]:
            s.close()
        os.close(self._stopped)

    def _serve(self):
        poll = select.epoll()
        by_fd = {self._listener.fileno(): self._listener, self._datagrams.fileno(): self._datagrams}
        for fd in [*by_fd, self._stopped]:
            poll.register(fd, select.EPOLLIN)
        while True:
            for fd, events in poll.poll():
                if fd == self._stopped:
                    return
                s = by_fd[fd]
                if s is self._listener:
                    peer, _ = s.accept()
                    peer.setblocking(False)
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    by_fd[peer.fileno()] = peer
                    self._peers[peer] = bytearray()
                    self.accepted += 1
                    poll.register(peer.fileno(), select.EPOLLIN)
                elif s is self._datagrams:
                    data, sender = s.recvfrom(1 << 16)
                    s.sendto(data, sender)
                elif not self._turn(poll, s, events):
                    del by_fd[fd]
                    poll.unregister(fd)
                    del self._peers[s]
                    reset(s) if self.behaviour == "reset" else s.close()

    def _turn(self, poll, s, events):
        """What one connection has to do now; False when it is over."""
        waiting = self._peers[s]
        try:
            if events & ~select.EPOLLOUT and not waiting:
                data = s.recv(1 << 18)
                self.bytes += len(data)
                if not data and self.behaviour == "tally":
                    s.setblocking(True)
                    s.sendall(struct.pack("!Q", self.bytes))
                if not data or self.behaviour == "reset":
                    return False
                if self.behaviour == "echo":
                    waiting += data
            if waiting:
                del waiting[:s.send(waiting)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        poll.modify(s.fileno(), select.EPOLLOUT if waiting else select.EPOLLIN)
        return True
