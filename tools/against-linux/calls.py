"""What scripts call: the socket interface with small arguments. Each returns its result, or "-1 ENAME"."""
import ctypes
import errno
import socket as sockets
import struct

INT, SIZE, SSIZE = ctypes.c_int, ctypes.c_size_t, ctypes.c_ssize_t
AF_UNSPEC, AF_INET, AF_INET6 = 0, 2, 10
BYTES = {"read", "readv", "recv", "recvfrom", "recvmsg", "write", "writev", "send", "sendto", "sendmsg"}
MSG_NOSIGNAL = 0x4000
F_SETFL, O_RDWR, O_NONBLOCK = 4, 2, 0o4000
MESSAGE = "=QI4xQQQQi4x"  # struct msghdr
NOBODYS = 9000            # descriptors that no call has returned


def _buffer(size):
    return ctypes.create_string_buffer(max(size, 1))


class _Vector:
    """An array of iovec over buffers of these sizes."""

    def __init__(self, sizes):
        self.buffers = [_buffer(size) for size in sizes]
        self.count = len(sizes)
        self.array = (ctypes.c_ulong * (2 * self.count))()
        for i, size in enumerate(sizes):
            self.array[2 * i], self.array[2 * i + 1] = ctypes.addressof(self.buffers[i]), size


class Calls:
    """`side`: Linux or Library. Scripts see the methods without an underscore; `...` stands for an argument's usual value.
    `descriptors`: the numbers that scripts use, and what they are."""

    def __init__(self, side, mode):
        self._side = side
        self._family = AF_INET if mode == "ipv4" else AF_INET6
        self.descriptors = {}

    def _fd(self, number):
        return INT(self.descriptors.get(number, number if number < 0 else NOBODYS + number))

    def _call(self, name, *arguments):
        result, error = self._side.call(name, SSIZE if name in BYTES else INT, *arguments)
        return result if result >= 0 else f"-1 {errno.errorcode.get(error, error)}"

    def _address(self, port, address, family=None):
        family = self._family if family is None else family
        if family == AF_UNSPEC:
            return struct.pack("=H", family) + bytes(14)
        if family == AF_INET:
            return struct.pack("=H", family) + struct.pack(">H", port) + address + bytes(8)
        mapped = bytes(10) + b"\xff\xff" + address if len(address) == 4 else address
        return struct.pack("=H", family) + struct.pack(">H", port) + bytes(4) + mapped + bytes(4)

    def _remote(self, port=8080, family=None):
        return self._address(port, self._side.remote, family)

    # Descriptors and connections

    def socket(self, family=..., kind=1, protocol=6):
        return self._call("socket", INT(self._family if family is ... else family), INT(kind), INT(protocol))

    def bind(self, fd, port=8080, *_):
        name = self._address(8080 if port is ... else port, self._side.local)
        return self._call("bind", self._fd(fd), name, INT(len(name)))

    def bindaddr(self, fd, address, port):
        name = self._address(port, sockets.inet_aton(address), AF_INET)
        return self._call("bind", self._fd(fd), name, INT(len(name)))

    def bindany6(self, fd, port):
        name = self._address(port, bytes(16), AF_INET6)
        return self._call("bind", self._fd(fd), name, INT(len(name)))

    def listen(self, fd, backlog):
        return self._call("listen", self._fd(fd), INT(backlog))

    def accept(self, fd, *_):
        return self._call("accept", self._fd(fd), None, None)

    def connect(self, fd, port=8080, *_, fam=None, size=None):
        name = self._remote(8080 if port is ... else port, fam)
        return self._call("connect", self._fd(fd), name, INT(len(name) if size is None else size))

    def close(self, fd):
        result = self._call("close", self._fd(fd))
        self.descriptors.pop(fd, None)
        return result

    def shutdown(self, fd, how):
        return self._call("shutdown", self._fd(fd), INT(how))

    def pipe(self, reading, writing):
        ends = (ctypes.c_int * 2)()
        result = self._call("pipe", ends)
        if result == 0:
            self.descriptors[reading], self.descriptors[writing] = ends
        return result

    # Bytes

    def read(self, fd, *size):
        return self._call("read", self._fd(fd), _buffer(size[-1]), SIZE(size[-1]))

    def recv(self, fd, size, flags=0):
        return self._call("recv", self._fd(fd), _buffer(size), SIZE(size), INT(flags))

    def write(self, fd, *size):
        return self._call("write", self._fd(fd), bytes(size[-1]), SIZE(size[-1]))

    def send(self, fd, size, flags=0):
        return self._call("send", self._fd(fd), bytes(size), SIZE(size), INT(flags | MSG_NOSIGNAL))

    def sendto(self, fd, size, flags=0, port=8080, fam=None):
        name = self._remote(port, fam)
        return self._call("sendto", self._fd(fd), bytes(size), SIZE(size), INT(flags | MSG_NOSIGNAL), name, INT(len(name)))

    def writev(self, fd, *sizes):
        vector = _Vector(sizes)
        return self._call("writev", self._fd(fd), vector.array, INT(vector.count))

    def sendmsg(self, fd, sizes, flags=0, name=False, cmsg=None):
        """`cmsg`: control messages as (level, type, bytes)."""
        vector = _Vector([sizes] if isinstance(sizes, int) else sizes)
        address = self._remote()
        address_buffer = ctypes.create_string_buffer(address, len(address))
        control = b""
        for level, kind, data in cmsg or []:
            control += struct.pack("=QII", 16 + len(data), level, kind) + data + bytes(-len(data) % 8)
        control_buffer = ctypes.create_string_buffer(control, len(control)) if control else None
        message = struct.pack(MESSAGE, ctypes.addressof(address_buffer) if name else 0, len(address) if name else 0,
                              ctypes.addressof(vector.array), vector.count,
                              ctypes.addressof(control_buffer) if control_buffer else 0, len(control), 0)
        return self._call("sendmsg", self._fd(fd), message, INT(flags | MSG_NOSIGNAL))

    def recvmsg(self, fd, size=0, flags=0, ctl=256, name=None):
        """The result, flags and control messages as text. `ctl`: bytes of room for these; `name`: and for the name, which is told then."""
        vector, control = _Vector([size]), _buffer(ctl)
        named = _buffer(name or 0)
        message = struct.pack(MESSAGE, ctypes.addressof(named) if name else 0, name or 0, ctypes.addressof(vector.array), 1 if size else 0,
                              ctypes.addressof(control) if ctl else 0, ctl, 0)
        message = ctypes.create_string_buffer(message, len(message))
        result = self._call("recvmsg", self._fd(fd), message, INT(flags))
        if isinstance(result, str):
            return result
        length, flags = struct.unpack("=Qi", message.raw[40:52])
        told = struct.unpack("=I", message.raw[8:12])[0]
        whose = f" name {named.raw[:min(told, name)].hex()}" if name else ""
        return f"{result} flags {flags:#x} {list(_control_messages(control.raw[:length]))}{whose}"

    def splice(self, source, target, size, flags=0):
        return self._call("splice", self._fd(source), None, self._fd(target), None, SIZE(size), ctypes.c_uint(flags))

    # Settings

    def setsockopt(self, fd, level, option, value, size=None):
        if isinstance(value, int):
            value = [value]
        if isinstance(value, list):
            value = struct.pack(f"={len(value)}i", *value)
        elif isinstance(value, str):
            value = value.encode()
        return self._call("setsockopt", self._fd(fd), INT(level), INT(option), value, INT(len(value) if size is None else size))

    def getsockopt(self, fd, level, option, size=4, fmt=None, given=b""):
        """An int; `fmt`: "s" a string, "len" how many bytes came, or a format of struct. `given`: what is there before, then zeros."""
        value, length = ctypes.create_string_buffer(given, max(size, 256)), ctypes.c_uint(size)
        result = self._call("getsockopt", self._fd(fd), INT(level), INT(option), value, ctypes.byref(length))
        if isinstance(result, str):
            return result
        data = value.raw[:length.value]
        if fmt == "s":
            return data.split(b"\0")[0].decode()
        if fmt == "len":
            return length.value
        if fmt:
            return str(struct.unpack("=" + fmt, data[:struct.calcsize("=" + fmt)]))
        return struct.unpack("=i", data[:4])[0] if len(data) >= 4 else data.hex()

    def linger(self, on, seconds):
        return struct.pack("=ii", on, seconds)

    def timeval(self, seconds, microseconds=0):
        return struct.pack("=qq", seconds, microseconds)

    def ioctl(self, fd, request, value=None):
        room = (ctypes.c_int * 2)(value or 0, 0)
        result = self._call("ioctl", self._fd(fd), ctypes.c_ulong(request), room)
        return result if isinstance(result, str) else room[0]

    def fcntl(self, fd, command, argument=0):
        return self._call("fcntl", self._fd(fd), INT(command), ctypes.c_long(argument))

    def nonblock(self, fd):
        return self.fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK)

    # Readiness

    def poll(self, fd, events, timeout=0):
        entry = ctypes.create_string_buffer(struct.pack("=ihh", self._fd(fd).value, events, 0), 8)
        result = self._call("poll", entry, ctypes.c_ulong(1), INT(timeout))
        return result if isinstance(result, str) else f"{result} {struct.unpack('=H', entry.raw[6:8])[0]:#x}"

    def epoll_create(self, size=1):
        return self._call("epoll_create", INT(size))

    def epoll_ctl(self, epoll, operation, fd, events=0):
        return self._call("epoll_ctl", self._fd(epoll), INT(operation), self._fd(fd), struct.pack("=IQ", events & 0xFFFFFFFF, fd))

    def epoll_wait(self, epoll, timeout=0, room=4):
        entries = _buffer(12 * room)
        result = self._call("epoll_wait", self._fd(epoll), entries, INT(room), INT(timeout))
        if isinstance(result, str):
            return result
        told = [struct.unpack("=IQ", entries.raw[12 * i:12 * i + 12]) for i in range(result)]
        return f"{result} " + " ".join(f"{fd}:{events:#x}" for events, fd in told)

    def sysctl(self, name, value):
        """A setting below net.ipv4 changes while the script runs."""
        with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
            file.write(str(value))
        return 0

    # Packets

    def icmp(self, kind, code, seq=1, len=1000, mtu=0, conn=-1):  # `len`: as scripts write it
        self._side.icmp(kind, code, seq, len, mtu, conn)


def _control_messages(data):
    at = 0
    while at + 16 <= len(data):
        length, level, kind = struct.unpack("=QII", data[at:at + 16])
        if length < 16:
            return
        value = data[at + 16:at + length]
        if (level, kind) in ((0, 11), (41, 25)):  # IP_RECVERR, IPV6_RECVERR: errno, origin, type, code, info, data
            offender = (value[16:].hex(),) if any(value[16:18]) else ()
            yield ("ERR", *struct.unpack("=IBBB", value[:7]), *struct.unpack("=II", value[8:16]), *offender)
        elif (level, kind) == (1, 37):  # SCM_TIMESTAMPING: the time itself differs
            stamps = struct.unpack("=6q", value[:48])
            yield ("STAMP", bool(stamps[0] or stamps[1]))
        elif (level, kind) == (6, 36):  # TCP_CM_INQ
            yield ("INQ", struct.unpack("=i", value[:4])[0])
        else:
            yield (level, kind, len(value))
        at += (length + 7) // 8 * 8
