"""Our side: libcorewire_packetdrill.so through its table, on its virtual clock.

The table hands packets over only by waiting for them, so they are taken when the script has been played. Numbers that the local end
chooses (initial sequence numbers, timestamps, ports) are therefore not known while it plays: it is played again with those of the pass
before, until they do not change any more."""
import ctypes
import time
from dataclasses import replace

from wire import Wire

FUNCTIONS = ["free", "socket", "bind", "listen", "accept", "connect", "read", "readv", "recv", "recvfrom", "recvmsg", "write", "writev",
             "send", "sendto", "sendmsg", "fcntl", "ioctl", "close", "shutdown", "getsockopt", "setsockopt", "poll", "netdev_send",
             "netdev_receive", "usleep", "gettimeofday", "epoll_create", "epoll_ctl", "epoll_wait", "pipe", "splice"]
LARGEST = 70000
PASSES = 12


class Table(ctypes.Structure):
    _fields_ = [("userdata", ctypes.c_void_p)] + [(name, ctypes.c_void_p) for name in FUNCTIONS]


class Library(Wire):
    """`known`: the connections of the pass before."""

    def __init__(self, path, script, mode, known):
        super().__init__(mode)
        self._known = known
        self._functions = {}
        self._table = Table()
        flags = f"{script.flags} segments={script.segments}" + (f" mtu={script.mtu}" if script.mtu else "")
        library = ctypes.CDLL(path, use_errno=True)
        library.packetdrill_interface_init(flags.encode(), ctypes.byref(self._table))
        self.start()

    def start(self):
        """Time begins."""
        self._began = self._clock()

    def now(self):
        return self._clock() - self._began

    def wait_until(self, when):
        left = when - self.now()
        if left > 1e-7:
            self._function("usleep")(self._user(), ctypes.c_uint(round(left * 1e6)))

    def add(self, connection):
        index = len(self.connections)
        if index < len(self._known):
            known = self._known[index]
            connection.local_isn, connection.stamp, connection.local_port = known.local_isn, known.stamp, known.local_port
        super().add(connection)

    def before_step(self, when):
        """Connections that the local end has opened by now."""
        for known in self._known[len(self.connections):]:
            if not known.active or known.born > when + 1e-5:
                return
            self.connections.append(replace(known, told=True))

    def inject(self, data):
        if self._function("netdev_send")(self._user(), data, ctypes.c_size_t(len(data))) != 0:
            self.note("netdev_send refused a packet")

    def call(self, name, returns, *arguments):
        """Its result, and errno of a failed one (else 0)."""
        ctypes.set_errno(0)
        result = self._function(name, returns)(self._user(), *arguments)
        return result, ctypes.get_errno() if result < 0 else 0

    def thread_started(self):
        time.sleep(0.03)  # the clock is virtual, the thread is not

    def finish(self, when):
        self.wait_until(when)
        time.sleep(0.02)
        buffer = ctypes.create_string_buffer(LARGEST)
        while True:
            size, left = ctypes.c_size_t(LARGEST), ctypes.c_longlong(0)
            result = self._function("netdev_receive")(self._user(), buffer, ctypes.byref(size), ctypes.byref(left))
            if result != 0 or size.value < 20 or left.value / 1e6 - self._began > when:
                return
            self.on_packet(left.value / 1e6 - self._began, buffer.raw[:size.value])

    def free(self):
        self._function("free")(self._user())

    def chosen(self):
        """The connections with the numbers that the local end chose, to compare and to hand on."""
        return [replace(connection, told=False, heard=False) for connection in self.connections]

    def _user(self):
        return ctypes.c_void_p(self._table.userdata)

    def _function(self, name, returns=ctypes.c_int):
        if name not in self._functions:
            self._functions[name] = ctypes.CFUNCTYPE(returns, use_errno=True)(getattr(self._table, name))
        return self._functions[name]

    def _clock(self):
        now = (ctypes.c_long * 2)()
        self._function("gettimeofday")(self._user(), now, None)
        return now[0] + now[1] / 1e6
