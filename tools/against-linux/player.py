"""Plays a script against one side and makes the trace."""
import ctypes
import errno
import os
import re
import struct
import subprocess
import threading

from calls import INT, Calls
from constants import NAMES
from library import PASSES, Library
from linux import Linux
from script import SYSCTLS
from wire import Connection

SOL_TCP, TCP_INFO = 6, 11
MAKES_DESCRIPTOR = re.compile(r"(socket|accept|epoll_create)")

# struct tcp_info, in order. Each 8-byte field lies at a multiple of 8.
INFO_FIELDS = {
    "B": "state ca_state retransmits probes backoff options wscales flags",
    "I": "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent last_data_recv last_ack_recv pmtu"
         " rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans",
    "Q": "pacing_rate max_pacing_rate bytes_acked bytes_received",
    "I ": "segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out",
    "Q ": "delivery_rate busy_time rwnd_limited sndbuf_limited",
    "I  ": "delivered delivered_ce",
    "Q  ": "bytes_sent bytes_retrans",
    "I   ": "dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash",
    "H": "total_rto total_rto_recoveries",
    "I    ": "total_rto_time received_ce delivered_e1_bytes delivered_e0_bytes delivered_ce_bytes received_e1_bytes received_e0_bytes"
             " received_ce_bytes accecn",  # 7.2: tcpi_ecn_mode, and from bits 2 and 4 on tcpi_accecn_opt_seen and tcpi_accecn_fail_mode
}
INFO = [(name, kind[0]) for kind, names in INFO_FIELDS.items() for name in names.split()]
INFO_FORMAT = "<" + "".join(kind for _, kind in INFO)
INFO_SIZE = struct.calcsize(INFO_FORMAT)


def set_sysctls(script, side):
    """Those of this network namespace. What a script asks for and is refused is noted."""
    for name, value in {**SYSCTLS, **script.sysctls}.items():
        path = "/proc/sys/net/" + (name if "/" in name else "ipv4/" + name)
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(str(int(value, 16)) if value.startswith("0x") else value)
        except OSError as e:
            if name in script.sysctls:
                side.append({"time": 0, "kind": "note", "text": f"sysctl {name}={value}: {e.strerror}", "refused": True})


def copy_sysctls():
    """The library reads files in place of this namespace's settings: they take what this kernel does not know."""
    folder = "/proc/sys/net/ipv4"
    if os.path.ismount(folder):  # by an earlier script of this process
        return
    values = {}
    for name in os.listdir(folder):
        try:
            with open(f"{folder}/{name}", encoding="ascii") as file:
                values[name] = file.read()
        except OSError:
            pass  # a folder, or not to be read
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for name, value in values.items():
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(value)


def play_linux(script, mode):
    """The kernel's trace: a list of events by time (see Wire)."""
    notes = []
    set_sysctls(script, notes)
    side = Linux(script, mode)
    player = _Player(side, mode)
    player.warm_up()
    side.start()
    player.play(script)
    return _by_time(notes + side.trace)


def play_library(script, mode, path):
    """The library's trace."""
    notes = []
    copy_sysctls()
    known = []
    for number in range(PASSES):
        notes.clear()
        set_sysctls(script, notes)  # again: scripts change them
        side = Library(path, script, mode, known)
        player = _Player(side, mode)
        side.start()
        player.play(script)
        if side.chosen() == known or number == PASSES - 1:
            break
        known = side.chosen()
        player.close_all()
        side.free()
    return _by_time(notes + side.trace)


def _by_time(trace):
    return [event for _, event in sorted(enumerate(trace), key=lambda e: (round(e[1]["time"], 4), e[0]))]


class _Player:
    def __init__(self, side, mode):
        self._side = side
        self._calls = Calls(side, mode)
        self._last = None  # the descriptor of the newest socket

    def play(self, script):
        names = {**NAMES, **{name: getattr(self._calls, name) for name in dir(self._calls) if not name.startswith("_")}}
        now = 0.0
        for step in script.steps:
            now = now + step.seconds if step.relative else step.seconds
            self._side.wait_until(now)
            self._side.before_step(now)
            if step.what.startswith("<"):
                self._side.segment(step.what)
                self._side.trace.append({"time": now, "kind": "input", "line": step.line, "text": step.what})
            elif step.what.startswith("?"):
                self._result(now, step, self._info(step.what[1:].split()))
            elif step.blocks:
                threading.Thread(target=self._do, args=(step, names), daemon=True).start()
                self._side.thread_started()
            else:
                self._do(step, names)
        self._side.finish(now + script.end)

    def warm_up(self):
        """Code runs slower the first time, above all in an emulated machine."""
        for step in ("socket()", "nonblock(1)", "poll(1, 1)", "getsockopt(1, 6, 11)"):
            eval(step, {name: getattr(self._calls, name) for name in ("socket", "nonblock", "poll", "getsockopt")})
        self._side.add(Connection(remote_port=1))
        self._side.segment("< R 0:0(0) @0")  # nobody's
        self._side.connections.clear()

    def close_all(self):
        for descriptor in list(self._calls.descriptors.values()):
            self._side.call("close", INT, INT(descriptor))

    def _result(self, when, step, result):
        self._side.trace.append({"time": when, "kind": "result", "line": step.line, "text": step.what, "result": str(result)})

    def _do(self, step, names):
        try:
            result = eval(step.what, names)  # scripts are programs: play only those that you trust
        except Exception as e:  # what is wrong with the script is seen where it matters
            result = f"cannot be played: {e!r}"
        when = self._side.now()
        if step.names is not None and isinstance(result, int) and MAKES_DESCRIPTOR.match(step.what):
            self._calls.descriptors[step.names] = result
            if not step.what.startswith("epoll"):
                self._last = result
            result = "fd"
        self._result(when, step, result)

    def _info(self, fields):
        descriptor = self._last
        if fields and fields[0].startswith("fd="):
            descriptor = self._calls.descriptors.get(int(fields[0][3:]))
            fields = fields[1:]
        room, size = ctypes.create_string_buffer(512), ctypes.c_uint(INFO_SIZE)
        result, error = self._side.call("getsockopt", INT, INT(-1 if descriptor is None else descriptor), INT(SOL_TCP), INT(TCP_INFO),
                                        room, ctypes.byref(size))
        if result < 0:
            return f"-1 {errno.errorcode.get(error, error)}"
        values = dict(zip((name for name, _ in INFO), struct.unpack(INFO_FORMAT, room.raw[:INFO_SIZE])))
        return " ".join(f"{name}={values.get(name, '?')}" for name in fields)
