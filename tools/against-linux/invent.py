"""Scripts that nobody wrote: connections that live by chance, from a seed.

What a peer may sensibly say depends on what it was sent, so the script grows step by step: what stands is played against the library, and
the next step is drawn from what has left by then. Whether that was right is the kernel's to say."""
import random
import re
from dataclasses import dataclass, field

SENDER = ("state ca_state retransmits backoff unacked sacked lost retrans total_retrans snd_cwnd snd_ssthresh reordering reord_seen"
          " dsack_dups delivered delivered_ce bytes_acked bytes_retrans notsent_bytes rto")
RECEIVER = "state unacked bytes_received rcv_ooopack options rcv_mss"
LEFT = re.compile(r"([A-Z.]+) (-?\d+):(-?\d+)\((\d+)\)(?: ack (-?\d+))?")
# Gaps between steps, seconds: within a burst, a round trip and others; none is near a deadline of Linux's (40 and 200 ms, the time-outs).
# A round trip of less than 5 ms would decide how many segments leave together, by parts of it that the kernel's side cannot repeat.
BURST = (0.006, 0.008)
QUICK = (0.001, 0.002)
GAPS = (0.012, 0.017, 0.065, 0.1, 0.1, 0.1, 0.13, 0.47)
LONG = (0.9, 1.7, 3.3)


@dataclass
class _Seen:
    """What the peer knows, from what has left."""
    sent: int = 1                 # beyond the last byte that left; a FIN counts
    fin: bool = False
    closed: bool = False          # a reset has left
    taken: int = 1                # the last acknowledgment number
    segments: list = field(default_factory=list)  # (begin, end) of data, in order
    stamps: list = field(default_factory=list)    # (end, value) of timestamps


class Inventor:
    """`play(lines)`: the library's trace of a script."""

    def __init__(self, seed, play):
        self._dice = random.Random(seed)
        self._play = play
        self.lines = [f"// invented from seed {seed}"]
        self._una, self._window, self._next, self._stamp = 1, 1000, 1, 1000
        self._written, self._shut, self._fin, self._over = 0, False, None, False
        self._sacked = []

    def script(self):
        self._begin()
        kinds = self._dice.choice((("sender",), ("sender",), ("receiver",), ("sender", "receiver"), ("sender", "receiver", "end"), ("receiver", "end"),
                                   ("sender", "end")))
        moves = {"sender": self._sender_moves(), "receiver": self._receiver_moves(), "end": self._end_moves()}
        for turn in range(self._dice.randint(6, 26)):
            if self._over:
                break
            seen = self._seen()
            kind = self._dice.choice(kinds)
            if kind == "end" and turn < 3 and self._chance(0.8):
                kind = kinds[0]
            names, weights = zip(*moves[kind])
            self._dice.choices(names, weights)[0](seen)
        self._ask(SENDER)
        self.lines.append(f"end {self._dice.choice((0.1, 0.5, 1.5))}")
        return self.lines

    # Drawing

    def _chance(self, share):
        return self._dice.random() < share

    def _add(self, what, gap=None):
        gap = self._dice.choice(GAPS) if gap is None else gap
        self.lines.append(f"+{gap} {what}")

    def _call(self, what):
        self._add(what, self._dice.choice((0, 0, 0.003, 0.013)))

    def _ask(self, fields):
        self.lines.append(f"+0 ? {fields}")

    def _pause(self):
        draw = self._dice.random()
        return self._dice.choice(BURST if draw < 0.45 else GAPS if draw < 0.93 else LONG)

    # The beginning

    def _begin(self):
        dice = self._dice
        self._stamps, self._sack = self._chance(0.4), self._chance(0.8)
        self._scale = dice.choice((None, 0, 7, 7, 7))
        self._mss = dice.choice((1000, 1000, 1460, 536, 300))
        self._ecn = self._chance(0.12)
        sysctls = []
        self._cubic = self._chance(0.2)
        if self._ecn:
            sysctls.append("tcp_ecn=1")
        for share, setting in ((0.05, "tcp_recovery=0"), (0.05, "tcp_early_retrans=0"), (0.04, "tcp_frto=0"), (0.04, "tcp_dsack=0"),
                               (0.04, "tcp_slow_start_after_idle=0"), (0.04, "tcp_reordering=5"), (0.04, "tcp_autocorking=0"),
                               (0.04, "tcp_moderate_rcvbuf=0"), (0.03, "tcp_limit_output_bytes=262144")):
            if self._chance(share):
                sysctls.append(setting)
        self.lines += [f"sysctl {each}" for each in sysctls]
        if self._chance(0.75):
            self.lines.append("segments " + dice.choice(("single", "cut")))
        options = [f"mss {self._mss}"]
        if self._sack:
            options.append("sackOK")
        if self._stamps:
            options.append(f"TS val {self._stamp} ecr 0")
        if self._scale is not None:
            options.append(f"nop,wscale {self._scale}")
        self._window = dice.choice((257, 1000, 65535)) if self._scale else dice.choice((5840, 20000, 65535))
        self._chosen = 'setsockopt({}, SOL_TCP, TCP_CONGESTION, "cubic")' if self._cubic else None
        if self._chance(0.7):
            self._passive(options)
        else:
            self._active(options)
        if self._chance(0.15):
            self._call("setsockopt(4, SOL_TCP, TCP_NODELAY, [1])")
        if self._chance(0.1):
            self._call(f"setsockopt(4, SOL_SOCKET, SO_SNDBUF, [{dice.choice((5000, 20000, 200000))}])")
        self._call("nonblock(4)")

    def _prepare(self, descriptor):
        if self._chance(0.12):
            size = self._dice.choice((3000, 10000, 40000, 500000))
            self.lines.append(f"+0 setsockopt({descriptor}, SOL_SOCKET, SO_RCVBUF, [{size}])")
        if self._chosen:
            self.lines.append("+0 " + self._chosen.format(descriptor))

    def _passive(self, options):
        self.lines += ["0 socket() = 3", "+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1])"]
        self._prepare(3)
        self.lines += ["+0 bind(3)", "+0 listen(3, 5)"]
        flags = "SEW" if self._ecn else "S"
        self.lines.append(f"+0 < {flags} 0:0(0) win {self._dice.choice((32792, 65535))} <{','.join(options)}>")
        self._stamp += 100
        self._segment("", 1, 1, 0, "+0.1")
        self.lines.append("+0 accept(3) = 4")

    def _active(self, options):
        self.lines += ["0 socket() = 4"]
        self._prepare(4)
        self.lines += ["+0 nonblock(4)", "+0 connect(4)"]
        flags = "SE." if self._ecn else "S."
        options = [each.replace("ecr 0", "ecr 100") for each in options]
        self.lines.append(f"+0.1 < {flags} 0:0(0) ack 1 win {self._dice.choice((32792, 65535))} <{','.join(options)}>")
        self._stamp += 100

    # What has left

    def _seen(self):
        seen = _Seen()
        for event in self._play(self.lines):
            if event["kind"] != "packet":
                continue
            found = LEFT.match(event["text"])
            if not found:
                continue
            letters, begin, end, length, ack = found.groups()
            begin, end, length = int(begin), int(end), int(length)
            if "R" in letters:
                seen.closed = True
                continue
            if "S" in letters:
                continue
            if length:
                seen.segments.append((begin, end))
            if "F" in letters:
                seen.fin, end = True, end + 1
            seen.sent = max(seen.sent, end)
            if ack is not None:
                seen.taken = max(seen.taken, int(ack))
            stamp = re.search(r"TS val (-?\d+)", event.get("options", ""))
            if stamp:
                seen.stamps.append((end, int(stamp[1])))
        if seen.closed and self._chance(0.7):
            self._over = True
        return seen

    # Segments

    def _segment(self, letters, begin, ack, length, when, options=(), window=None, mark=None, seen=None):
        options = list(options)
        if self._stamps:
            echo = 100
            if seen and seen.stamps:
                fresh = [value for end, value in seen.stamps if end <= ack]
                echo = max(fresh) if fresh else seen.stamps[-1][1]
                if self._chance(0.06):
                    echo = self._dice.choice(seen.stamps)[1]
            options.insert(0, f"nop,nop,TS val {self._stamp} ecr {echo or 1}")
            self._stamp += self._dice.choice((0, 1, 5, 20))
        text = f" <{','.join(options)}>" if options else ""
        window = self._window if window is None else window
        mark = f"[{mark}] " if mark else ""
        self.lines.append(f"{when} < {mark}{letters}. {begin}:{begin + length}({length}) ack {ack} win {window}{text}")

    def _peer_next(self):
        return self._next + (1 if self._fin is not None else 0)

    def _acknowledge(self, seen, ack, options=(), window=None, letters=""):
        if self._ecn and self._chance(0.1):
            letters += "E"
        self._segment(letters, self._peer_next(), ack, 0, f"+{self._pause()}", options, window, seen=seen)
        self._una = max(self._una, ack)
        self._sacked = [(a, b) for a, b in self._sacked if b > self._una]
        if self._chance(0.45):
            self._ask(SENDER)

    def _blocks(self):
        shown = self._sacked[:3 if self._stamps else 4]
        return [f"nop,nop,sack {' '.join(f'{a}:{b}' for a, b in shown)}"] if shown and self._sack else []

    # A sender's life

    def _sender_moves(self):
        return ((self._write, 5), (self._acknowledge_all, 3), (self._acknowledge_some, 4), (self._acknowledge_odd, 0.5), (self._duplicate, 2),
                (self._sack_more, 6), (self._sack_twice, 1), (self._change_window, 1), (self._wait, 1.5), (self._set_option, 0.5), (self._old_ack, 0.4),
                (self._burst_of_sacks, 3))

    def _write(self, seen):
        if self._shut:
            return self._acknowledge_all(seen)
        size = self._dice.choice((1, 100, self._mss, 2 * self._mss, 3 * self._mss + 17, 10 * self._mss, 10000, 20000, 40000))
        flags = ", MSG_MORE" if self._chance(0.05) else ""
        self._call(f"send(4, {size}{flags})" if flags else f"write(4, {size})")
        if self._chance(0.3):
            self._ask(SENDER)

    def _acknowledge_all(self, seen):
        self._acknowledge(seen, max(self._una, seen.sent))

    def _ends(self, seen):
        return sorted({end for _, end in seen.segments if end > self._una and end <= seen.sent})

    def _acknowledge_some(self, seen):
        ends = self._ends(seen)
        if not ends:
            return self._write(seen)
        ack = self._dice.choice(ends[:4] if self._chance(0.6) else ends)
        for a, b in sorted(self._sacked):
            if a <= ack:
                ack = max(ack, b)
        self._acknowledge(seen, ack, [] if not [s for s in self._sacked if s[1] > ack] else self._kept_blocks(ack))

    def _kept_blocks(self, ack):
        self._sacked = [(a, b) for a, b in self._sacked if b > ack]
        return self._blocks()

    def _acknowledge_odd(self, seen):
        if seen.sent > self._una + 1:
            self._acknowledge(seen, self._dice.randint(self._una + 1, seen.sent))
        else:
            self._write(seen)

    def _duplicate(self, seen):
        for _ in range(self._dice.choice((1, 2, 3, 4, 5))):
            self._acknowledge(seen, self._una, self._blocks() if self._chance(0.5) else ())

    def _merge(self, begin, end):
        others = []
        for a, b in self._sacked:
            if b < begin or a > end:
                others.append((a, b))
            else:
                begin, end = min(a, begin), max(b, end)
        self._sacked = [(begin, end)] + others

    def _sack_more(self, seen):
        free = [(a, b) for a, b in seen.segments if a > self._una and b <= seen.sent]
        if not free or not self._sack:
            return self._duplicate(seen) if seen.sent > self._una else self._write(seen)
        self._merge(*self._dice.choice(free))
        self._acknowledge(seen, self._una, self._blocks())

    def _burst_of_sacks(self, seen):
        free = sorted({(a, b) for a, b in seen.segments if a > self._una and b <= seen.sent})
        if not free or not self._sack:
            return self._acknowledge_some(seen)
        first = self._dice.randrange(len(free))
        for begin, end in free[first:first + self._dice.randint(2, 8)]:
            self._merge(begin, end)
            self._acknowledge(seen, self._una, self._blocks())

    def _sack_twice(self, seen):
        old = [(a, b) for a, b in seen.segments if b <= self._una]
        if not old or not self._sack:
            return self._acknowledge_some(seen)
        a, b = self._dice.choice(old)
        kept = " ".join(f"{x}:{y}" for x, y in self._sacked[:2])
        self._acknowledge(seen, self._una, [f"nop,nop,sack {a}:{b} {kept}".strip()])

    def _change_window(self, seen):
        self._window = self._dice.choice((0, 1, 3, 10, 100, 257, 1000, 5000))
        self._acknowledge(seen, self._una if self._chance(0.5) else max(self._una, seen.sent))

    def _wait(self, seen):
        self._add(f"? {SENDER}", self._dice.choice(LONG))

    def _old_ack(self, seen):
        if self._una > 1:
            self._segment("", self._peer_next(), self._dice.randint(1, self._una), 0, f"+{self._pause()}", seen=seen)
        else:
            self._write(seen)

    def _set_option(self, seen):
        self._call(self._dice.choice(("setsockopt(4, SOL_TCP, TCP_NODELAY, [1])", "setsockopt(4, SOL_TCP, TCP_NODELAY, [0])",
                                      "setsockopt(4, SOL_TCP, TCP_CORK, [1])", "setsockopt(4, SOL_TCP, TCP_CORK, [0])",
                                      "setsockopt(4, SOL_TCP, TCP_QUICKACK, [1])", "setsockopt(4, SOL_TCP, TCP_QUICKACK, [0])",
                                      "ioctl(4, SIOCOUTQ)", "ioctl(4, SIOCINQ)", "poll(4, POLLIN | POLLOUT | POLLRDHUP)",
                                      "setsockopt(4, SOL_TCP, TCP_NOTSENT_LOWAT, [2000])")))

    # A receiver's life

    def _receiver_moves(self):
        return ((self._data, 6), (self._data_burst, 3), (self._data_beyond, 3), (self._data_again, 1.5), (self._data_odd, 1), (self._read, 4), (self._read_some, 2),
                (self._data_closed_out, 0.3), (self._fin_comes, 0.3), (self._set_option, 0.4), (self._strange, 0.6), (self._wait_receiver, 1))

    def _bytes(self, seen, begin, length, letters="", gap=None):
        mark = self._dice.choice(("ect0", "ect0", "ce")) if self._ecn and self._chance(0.6) else None
        ack = max(self._una, seen.sent) if self._chance(0.7) else self._una
        self._una = max(self._una, ack)
        self._sacked = [(a, b) for a, b in self._sacked if b > self._una]
        self._segment(("P" if self._chance(0.3) else "") + letters, begin, ack, length, f"+{self._pause() if gap is None else gap}", mark=mark, seen=seen)
        if self._chance(0.35):
            self._ask(RECEIVER)

    def _length(self):
        return self._dice.choice((1, 10, 300, 1000, 1000, 1000, 1460, 1460))

    def _data(self, seen):
        if self._fin is not None:
            return self._read(seen)
        length = self._length()
        self._bytes(seen, self._next, length)
        self._next += length

    def _data_burst(self, seen):
        if self._fin is not None:
            return self._data_again(seen)
        length = self._length()
        for _ in range(self._dice.randint(2, 10)):
            self._bytes(seen, self._next, length, gap=self._dice.choice(QUICK))
            self._next += length

    def _data_beyond(self, seen):
        length = self._length()
        limit = self._fin if self._fin is not None else seen.taken + 20000
        begin = seen.taken + self._dice.choice((1, 2, 3, 5, 8)) * length
        if begin + length > limit:
            return self._data_again(seen)
        self._bytes(seen, begin, length)
        self._next = max(self._next, begin + length)

    def _data_again(self, seen):
        length = self._length()
        begin = max(1, seen.taken - self._dice.choice((0, 1, 2)) * length - self._dice.choice((0, 0, 7)))
        if self._fin is not None:
            length = min(length, self._fin - begin)
        if length > 0:
            self._bytes(seen, begin, length)
            self._next = max(self._next, begin + length)

    def _data_odd(self, seen):
        begin, length = seen.taken + self._dice.randint(-1500, 6000), self._dice.randint(1, 1460)
        if begin > 0 and (self._fin is None or begin + length <= self._fin):
            self._bytes(seen, begin, length)
            self._next = max(self._next, begin + length)

    def _data_closed_out(self, seen):
        self._bytes(seen, seen.taken + self._dice.choice((70000, 200000, 8000000)), 1000)

    def _read(self, seen):
        self._call("read(4, 100000)")

    def _read_some(self, seen):
        self._call(f"read(4, {self._dice.choice((1, 500, 1000, 3000))})")

    def _fin_comes(self, seen):
        if self._fin is not None:
            return self._read(seen)
        if self._chance(0.7):
            self._next = max(self._next, seen.taken)
        self._fin = self._next
        self._segment("F", self._next, max(self._una, seen.sent), 0, f"+{self._pause()}", seen=seen)
        self._una = max(self._una, seen.sent)
        if self._chance(0.5):
            self._ask(RECEIVER)

    def _wait_receiver(self, seen):
        self._add(f"? {RECEIVER}", self._dice.choice(LONG))

    def _strange(self, seen):
        """Segments that a blind attacker or an old connection would send."""
        draw = self._dice.choice(("R", "R.", "S", "S.", "stale", "none", "urgent", "empty"))
        offset = self._dice.choice((-1, 1, 10, 1000, 100000))
        now = f"+{self._pause()}"
        if draw in ("R", "R."):
            ack = f"ack {seen.sent} " if "." in draw else ""
            self.lines.append(f"{now} < {draw} {seen.taken + offset}:{seen.taken + offset}(0) {ack}win 0")
        elif draw in ("S", "S."):
            ack = f"ack {seen.sent} " if "." in draw else ""
            self.lines.append(f"{now} < {draw} {max(0, seen.taken + offset)}:{max(0, seen.taken + offset)}(0) {ack}win 1000 <mss 1000> same")
        elif draw == "stale" and self._stamps:
            self.lines.append(f"{now} < . {seen.taken}:{seen.taken + 100}(100) ack {seen.sent} win {self._window} <nop,nop,TS val 5 ecr 100>")
        elif draw == "none":
            self.lines.append(f"{now} < . {seen.taken}:{seen.taken + 100}(100) ack {seen.sent} win {self._window}")
            if not self._stamps:
                self._next = max(self._next, seen.taken + 100)
        elif draw == "urgent":
            length = self._dice.choice((1, 100))
            self.lines.append(f"{now} < U. {seen.taken}:{seen.taken + length}({length}) ack {seen.sent} win {self._window} urg {self._dice.choice((1, length, length + 5))}"
                              + (f" <nop,nop,TS val {self._stamp} ecr 100>" if self._stamps else ""))
            self._next = max(self._next, seen.taken + length)
        else:
            self._segment("", seen.taken + offset, seen.sent, 0, now, seen=seen)
        self._una = max(self._una, seen.sent) if draw not in ("R", "S") else self._una
        if self._chance(0.4):
            self._ask(RECEIVER)

    # Ends

    def _end_moves(self):
        return ((self._shut_writing, 2), (self._shut_reading, 0.5), (self._close, 1.5), (self._fin_comes, 3), (self._reset_comes, 0.4), (self._acknowledge_all, 3),
                (self._data_again, 1), (self._data, 1), (self._strange, 1), (self._linger, 0.3), (self._wait, 1), (self._look, 1), (self._write, 1), (self._read, 1))

    def _shut_writing(self, seen):
        self._call("shutdown(4, SHUT_WR)")
        self._shut = True

    def _shut_reading(self, seen):
        self._call("shutdown(4, SHUT_RD)")

    def _close(self, seen):
        self._call("close(4)")
        self._shut = True

    def _linger(self, seen):
        self._call("setsockopt(4, SOL_SOCKET, SO_LINGER, linger(1, 0))")

    def _reset_comes(self, seen):
        self.lines.append(f"+{self._pause()} < R. {seen.taken}:{seen.taken}(0) ack {seen.sent} win 0")

    def _look(self, seen):
        self._call(self._dice.choice(("poll(4, POLLIN | POLLOUT | POLLRDHUP)", "getsockopt(4, SOL_SOCKET, SO_ERROR)", "ioctl(4, SIOCINQ)")))
