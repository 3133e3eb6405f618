"""Two traces side by side: which packets, results and times differ by more than real time explains."""
import re
from dataclasses import dataclass

PACKETS_SHOWN = 6
STAMP = re.compile(r"TS val (-?\d+)")
# Fields of TCP_INFO that measure time, which passes in steps of a tick (4 ms at 250 Hz) in the kernel.
MICROSECONDS = {"rto", "rtt", "rttvar", "min_rtt", "ato", "busy_time", "rwnd_limited", "sndbuf_limited", "rcv_rtt"}
MILLISECONDS = {"last_data_sent", "last_ack_sent", "last_data_recv", "last_ack_recv"}
SINCE_A_TIMER = {"total_rto_time"}  # milliseconds; the kernel's timers are late by up to an eighth
RATES = {"pacing_rate", "delivery_rate"}


@dataclass
class Rules:
    """What counts. Times are the same within `seconds` and `share` of them."""
    seconds: float = 0.022
    share: float = 0.03
    push: bool = True
    window: bool = False
    all_packets: bool = False
    ignored: frozenset = frozenset()  # fields of TCP_INFO

    def same_time(self, linux, ours):
        return abs(linux - ours) <= self.seconds + self.share * abs(linux)

    def text(self, packet):
        text = packet["text"] if self.push else packet["text"].replace("P.", ".")
        if packet.get("connection"):
            text = f"@{packet['connection']} {text}"
        if packet.get("tos"):
            text += f" tos {packet['tos']:#x}"
        if "urgent" in packet:
            text += f" urg {packet['urgent']}"
        if self.window:
            text += f" win {packet.get('window')}"
        if packet.get("options"):
            text += f" <{packet['options']}>"
        return text

    def same_packet(self, linux, ours):
        a, b = self.text(linux), self.text(ours)
        if STAMP.sub("TS val", a) != STAMP.sub("TS val", b):
            return False
        stamps = zip(STAMP.findall(a), STAMP.findall(b))
        return self.same_time(linux["time"], ours["time"]) and all(self.same_time(int(x) / 1000, int(y) / 1000) for x, y in stamps)

    def same_result(self, linux, ours):
        if linux == ours:
            return True
        a, b = linux.split(), ours.split()
        return len(a) == len(b) and all(self._same_word(x, y) for x, y in zip(a, b))

    def _same_word(self, linux, ours):
        if linux == ours or linux.partition("=")[0] in self.ignored:
            return True
        (name, _, a), (other, _, b) = linux.partition("="), ours.partition("=")
        if name != other or not a.isdigit() or not b.isdigit():
            return False
        apart, a = abs(int(a) - int(b)), int(a)
        if name in MICROSECONDS:
            return apart <= max(13000, 0.03 * a)
        if name in MILLISECONDS:
            return apart <= 14
        if name in SINCE_A_TIMER:
            return apart <= 45
        return name in RATES and apart < 0.1 * a


def differences(linux, ours, rules):
    """Lines of text, none where the traces are the same."""
    lines = [f"  {side}: {event['text']}" for side, trace in (("Linux", linux), ("ours", ours))
             for event in trace if event["kind"] == "note"]
    return lines + _packets(_of_kind(linux, "packet"), _of_kind(ours, "packet"), rules) + _results(linux, ours, rules)


def show(trace, rules):
    """A whole trace as lines of text."""
    for event in trace:
        text = "> " + rules.text(event) if event["kind"] == "packet" else event["text"]
        yield f"    {event['time']:.4f} {text}" + (f" -> {event['result']}" if "result" in event else "")


def _of_kind(trace, kind):
    return [event for event in trace if event["kind"] == kind]


def _packets(linux, ours, rules):
    count = max(len(linux), len(ours))
    differ = [i for i in range(count) if i >= len(linux) or i >= len(ours) or not rules.same_packet(linux[i], ours[i])]
    if not differ:
        return []
    lines = [f"  packets: {len(linux)} of Linux's, {len(ours)} of ours; {len(differ)} differ, the first is number {differ[0]}"]
    begin = max(0, differ[0] - 1)
    for i in range(begin, count if rules.all_packets else min(count, begin + PACKETS_SHOWN + 1)):
        a, b = (f"{trace[i]['time']:.4f} {rules.text(trace[i])}" if i < len(trace) else "-" for trace in (linux, ours))
        lines += [f"  {'!' if i in differ else ' '} Linux {a}", f"    ours  {b}"]
    return lines


def _results(linux, ours, rules):
    linux, ours = ({event["line"]: event for event in _of_kind(trace, "result")} for trace in (linux, ours))
    lines = []
    for line in sorted({*linux, *ours}):
        a, b = linux.get(line), ours.get(line)
        if a is None or b is None:
            told = [f"{event['time']:.4f} {event['result']}" if event else "has not returned" for event in (a, b)]
        elif not rules.same_result(a["result"], b["result"]):
            told = [a["result"], b["result"]]
        elif not rules.same_time(a["time"], b["time"]):
            told = [f"returned at {event['time']:.4f}" for event in (a, b)]
        else:
            continue
        lines += [f"  line {line}: {(a or b)['text']}", f"    Linux {told[0]}", f"    ours  {told[1]}"]
    return lines
