"""The wire: a script's packets as bytes, and what the other end sends as text in the script's numbers.

Sequence numbers in scripts count from each end's SYN (0); the value of the local end's first timestamp is 100."""
import re
import socket
import struct
from dataclasses import dataclass

TCP, ICMP, ICMP6 = 6, 1, 58
FIN, SYN, RST, ACK, URG = 1, 2, 4, 16, 32
LETTERS = [(FIN, "F"), (SYN, "S"), (RST, "R"), (8, "P"), (ACK, "."), (64, "E"), (128, "W"), (URG, "U"), (256, "A")]
MARKS = {None: 0, "ect1": 1, "ect0": 2, "ce": 3}
EXPERIMENT = b"\xf9\x89"  # Fast Open's older option: kind 254 with these two bytes
COUNTERS = {"ACC0": 172, "ACC1": 174}  # AccECN's option of both orders
FIRST_STAMP = 100
WORD = 0xFFFFFFFF
SEGMENT = re.compile(r"<\s*(?:\[(\w+)\]\s*)?([SFRP.EWUA]+)\s+(-?\d+):(-?\d+)\((\d+)\)(.*)$")


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def put_checksum(data, at, value):
    return data[:at] + struct.pack(">H", value) + data[at + 2:]


def signed(number):
    number &= WORD
    return number - (1 << 32) if number & 0x80000000 else number


@dataclass
class Connection:
    local_port: int = 8080
    remote_port: int = 0
    local_isn: "int | None" = None   # not known before the first SYN has left
    remote_isn: int = 0
    stamp: "int | None" = None       # what a timestamp of 0 in the script is for the local end
    active: bool = False             # the local end opened it
    born: float = 0                  # when its SYN left
    told: bool = False               # its numbers come from the pass before (library.py)
    heard: bool = False              # the local end's own have been seen, in this pass


class Wire:
    """One end of a wire with addresses as packetdrill has them. `trace`: what happened, events as dicts: time (seconds), kind
    (packet, input, result, note), text. Whoever derives from it has inject(bytes) and now()."""

    def __init__(self, mode):
        self.ipv6 = mode == "ipv6"
        family = socket.AF_INET6 if self.ipv6 else socket.AF_INET
        self.local = socket.inet_pton(family, "fd3d:0a0b:17d6::1" if self.ipv6 else "192.168.0.1")
        self.remote = socket.inet_pton(family, "fd3d:fa7b:d17d::1" if self.ipv6 else "192.0.2.1")
        self.connections = []
        self.trace = []

    def note(self, text):
        self.trace.append({"time": self.now(), "kind": "note", "text": text})

    def add(self, connection):
        self.connections.append(connection)

    # What the script sends

    def segment(self, text):
        """Sends what a line such as `< S 0:0(0) win 1000 <mss 1000>` says; without a connection that it could belong to, nothing."""
        parsed = SEGMENT.match(text)
        if not parsed:
            raise ValueError(f"not a segment: {text}")
        mark, letters, begin, end, length, rest = parsed.groups()
        begin, length = int(begin), int(length)
        if int(end) - begin != length:
            raise ValueError(f"the length is not end - begin: {text}")
        flags = 0
        for letter in letters:
            flags |= {name: bit for bit, name in LETTERS}[letter]
        option_text = re.search(r"<([^>]*)>", rest)
        if option_text:
            rest = rest.replace(option_text[0], "")

        def number(name, otherwise):
            found = re.search(rf"\b{name}\s+(-?\d+)", rest)
            return int(found[1]) if found else otherwise

        connection = self._connection_of(flags, rest, number("from", None))
        if connection is None:
            return
        ack = number("ack", None)
        ack = 0 if ack is None else (ack + (connection.local_isn or 0)) & WORD
        options = self._options(option_text[1] if option_text else "", connection)
        header = struct.pack(">HHIIHHHH", connection.remote_port, connection.local_port, (connection.remote_isn + begin) & WORD, ack,
                             ((20 + len(options)) // 4) << 12 | flags, number("win", 65535), 0, number("urg", 0))
        payload = header + options + bytes(length)
        payload = put_checksum(payload, 16, checksum(self._pseudo_header(TCP, len(payload)) + payload))
        self.inject(self._packet(TCP, payload, MARKS[mark] | number("tos", 0), number("ttl", 64)))

    def _connection_of(self, flags, rest, port):
        chosen = re.search(r"@(\d+)", rest)
        if chosen:
            return self.connections[int(chosen[1])] if int(chosen[1]) < len(self.connections) else None
        is_new = flags & (SYN | ACK) == SYN and "same" not in rest.split()
        if is_new and not (self.connections and self.connections[-1].active):
            self.add(Connection(remote_port=port or 40000 + len(self.connections)))
        return self.connections[-1] if self.connections else None

    def icmp(self, kind, code, seq, size, mtu, index):
        """A report about the segment at `seq`, `size` bytes long, of the connection `index` (-1: the newest)."""
        if not self.connections:
            return
        of = self.connections[index]
        begin = struct.pack(">HHIIHHHH", of.local_port, of.remote_port, ((of.local_isn or 0) + seq) & WORD, 0, 5 << 12 | ACK, 1000, 0, 0)
        if self.ipv6:
            about = struct.pack(">IHBB", 6 << 28, 20 + size, TCP, 64) + self.local + self.remote + begin
            report = struct.pack(">BBHI", kind, code, 0, mtu) + about
            total = checksum(self._pseudo_header(ICMP6, len(report)) + report)
            self.inject(self._packet(ICMP6, put_checksum(report, 2, total)))
        else:
            about = struct.pack(">BBHHHBBH", 0x45, 0, 40 + size, 0, 0x4000, 64, TCP, 0) + self.local + self.remote
            about = put_checksum(about, 10, checksum(about)) + begin
            report = struct.pack(">BBHHH", kind, code, 0, 0, mtu) + about
            self.inject(self._packet(ICMP, put_checksum(report, 2, checksum(report))))

    def _packet(self, protocol, payload, tos=0, ttl=64):
        if self.ipv6:
            return struct.pack(">IHBB", 6 << 28 | tos << 20, len(payload), protocol, ttl) + self.remote + self.local + payload
        header = struct.pack(">BBHHHBBH", 0x45, tos, 20 + len(payload), 0, 0, ttl, protocol, 0) + self.remote + self.local
        return put_checksum(header, 10, checksum(header)) + payload

    def _pseudo_header(self, protocol, length):
        tail = struct.pack(">II", length, protocol) if self.ipv6 else struct.pack(">BBH", 0, protocol, length)
        return self.remote + self.local + tail

    @staticmethod
    def _options(text, connection):
        data = b""
        for option in filter(None, (part.strip() for part in text.split(","))):
            name, *words = option.split()
            if name == "mss":
                data += struct.pack(">BBH", 2, 4, int(words[0]))
            elif name == "wscale":
                data += struct.pack(">BBB", 3, 3, int(words[0]))
            elif name == "sackOK":
                data += b"\4\2"
            elif name == "nop":
                data += b"\1"
            elif name == "eol":
                data += b"\0"
            elif name == "TS":  # TS val N ecr N
                echo = int(words[3])
                echo = echo + (connection.stamp or 0) if echo else 0
                data += struct.pack(">BBII", 8, 10, int(words[1]) & WORD, echo & WORD)
            elif name == "sack":
                edges = [int(edge) + (connection.local_isn or 0) for word in words for edge in word.split(":")]
                data += struct.pack(f">BB{len(edges)}I", 5, 2 + 4 * len(edges), *(edge & WORD for edge in edges))
            elif name == "FO":
                cookie = bytes.fromhex(words[0]) if words else b""
                data += struct.pack(">BB", 34, 2 + len(cookie)) + cookie
            elif name == "FOEXP":
                cookie = bytes.fromhex(words[0]) if words else b""
                data += struct.pack(">BB", 254, 4 + len(cookie)) + EXPERIMENT + cookie
            elif name in COUNTERS:  # up to three counters
                data += struct.pack(">BB", COUNTERS[name], 2 + 3 * len(words)) + b"".join(int(word).to_bytes(3, "big") for word in words)
            elif name == "raw":
                data += bytes.fromhex(words[0])
            else:
                raise ValueError(f"not an option: {option}")
        return data + bytes(-len(data) % 4)

    # What the other end sends

    def on_packet(self, time, data):
        """A packet has left: into the trace."""
        packet = _parse(data)
        if packet["protocol"] == ICMP6:  # neighbours and routers
            return
        if packet["protocol"] != TCP:
            self.trace.append({"time": time, "kind": "packet", "text": f"protocol {packet['protocol']}"})
            return
        index = self._connection_of_packet(time, packet)
        if index is None:
            self.trace.append({"time": time, "kind": "packet", "text": f"of no connection: {packet}"})
            return
        connection = self.connections[index]
        if packet["flags"] & SYN and not connection.heard:
            connection.heard = True
            connection.local_isn, connection.stamp = packet["seq"], None
        base = connection.local_isn
        if base is None:
            base = 0 if packet["flags"] & RST else packet["seq"]
        letters = "".join(name for bit, name in LETTERS if packet["flags"] & bit)
        seq, length = signed(packet["seq"] - base), packet["length"]
        text = f"{letters} {seq}:{seq + length}({length})"
        if packet["flags"] & ACK:
            text += f" ack {signed(packet['ack'] - connection.remote_isn)}"
        event = {"time": time, "kind": "packet", "text": text, "window": packet["window"], "tos": packet["tos"], "ttl": packet["ttl"],
                 "options": ",".join(_option_text(option, connection) for option in packet["options"])}
        if packet["urgent"] or packet["flags"] & URG:
            event["urgent"] = packet["urgent"]
        if index:
            event["connection"] = index
        self.trace.append(event)

    def _connection_of_packet(self, time, packet):
        """Its index, None for none. The SYN of the local end makes one."""
        ports = packet["from"], packet["to"]
        same = [i for i, connection in enumerate(self.connections) if ports == (connection.local_port, connection.remote_port)]
        heard = [i for i in same if self.connections[i].heard]
        found = (heard or same or [None])[-1]
        if packet["flags"] & (SYN | ACK) != SYN or (heard and self.connections[found].local_isn == packet["seq"]):
            return found
        unheard = [i for i in same if i not in heard]
        if unheard:
            return unheard[0]
        if found is not None and not self.connections[found].active:
            return found
        self.connections.append(Connection(*ports, active=True, born=time))
        return len(self.connections) - 1


def _parse(data):
    if data[0] >> 4 == 4:
        header, protocol, tos, ttl = (data[0] & 15) * 4, data[9], data[1], data[8]
        total = struct.unpack(">H", data[2:4])[0]
        payload = data[header:total] if total else data[header:]
    else:
        protocol, tos, ttl = data[6], struct.unpack(">H", data[:2])[0] >> 4 & 255, data[7]
        payload = data[40:40 + struct.unpack(">H", data[4:6])[0]]
    if protocol != TCP:
        return {"protocol": protocol}
    source, destination, seq, ack, offset, window, _, urgent = struct.unpack(">HHIIHHHH", payload[:20])
    header = (offset >> 12) * 4
    return {"protocol": TCP, "from": source, "to": destination, "seq": seq, "ack": ack, "flags": offset & 0x1FF, "window": window,
            "urgent": urgent, "options": list(_parse_options(payload[20:header])), "length": len(payload) - header, "tos": tos, "ttl": ttl}


def _parse_options(data):
    """Name and values of each."""
    while data:
        kind = data[0]
        if kind == 0:
            yield ["eol"]
            return
        if kind == 1:
            yield ["nop"]
            data = data[1:]
            continue
        if len(data) < 2 or data[1] < 2:
            yield ["malformed", data.hex()]
            return
        value, data = data[2:data[1]], data[data[1]:]
        if kind == 2:
            yield ["mss", struct.unpack(">H", value)[0]]
        elif kind == 3:
            yield ["wscale", value[0]]
        elif kind == 4:
            yield ["sackOK"]
        elif kind == 5:
            yield ["sack", *struct.unpack(f">{len(value) // 4}I", value)]
        elif kind == 8:
            yield ["TS", *struct.unpack(">II", value)]
        elif kind == 34:
            yield ["FO", value.hex()]
        elif kind in COUNTERS.values() and len(value) % 3 == 0:
            yield [f"ACC{(kind - 172) // 2}", *(int.from_bytes(value[i:i + 3], "big") for i in range(0, len(value), 3))]
        elif kind == 254 and value[:2] == EXPERIMENT:
            yield ["FOEXP", value[2:].hex()]
        else:
            yield [f"opt{kind}", value.hex()]


def _option_text(option, connection):
    name, *values = option
    if name == "TS":
        if connection.stamp is None:
            connection.stamp = (values[0] - FIRST_STAMP) & WORD
        return f"TS val {signed(values[0] - connection.stamp)} ecr {values[1]}"
    if name == "sack":
        edges = [signed(edge - connection.remote_isn) for edge in values]
        return "sack " + " ".join(f"{a}:{b}" for a, b in zip(edges[::2], edges[1::2]))
    return " ".join(str(word) for word in option)
