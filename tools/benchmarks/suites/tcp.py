"""TCP at full speed and under stress: bulk over every port, with losses, in short connections, beside a million idle ones and beside a
flood. Both ends in one process over `wire`, or a process at each end of a veth pair; the helpers are cw-bench-stream (the kernel's
sockets, plainly), cw-bench-connections and cw-bench-goodput (simulated, hence exact)."""
import contextlib

from ..figures import at_best, at_median
from ..network import DEVICE, VethPair
from ..rows import Figure, Leg, Row, Target, Unmeasurable, best, column, median
from .rtt import ECHO_PORT, XDP_MODES, Rtt

# Payload of a segment with timestamps, so that each of the sender's buffers is one: what a sender of cached data would choose.
SEGMENT = {1500: 1448, 9000: 8948}
FRAME = 1500          # payload of a full Ethernet frame
LOSSES = (10_000, 1_000, 100)
LOSS_FLOORS = {10_000: 0.8, 1_000: 0.6, 100: 0.3}
STREAM_PORT = "7801"
IDLE = 1_000_000
TAP = "cwbtap0"
TAP_NETWORK = ("10.98.2.1", "10.98.2.2")  # the kernel's end, and the stack's


class Tcp(Rtt):
    """The legs of this suite, beside what it shares with rtt."""

    def __init__(self, programs, seconds, cleanup):
        super().__init__(programs, seconds, cleanup)
        self.plain_pair = None
        self.thread_pair = None

    def veth(self):
        if self.pair is None:
            self.pair = self.cleanup.enter_context(VethPair("t"))
        return self.pair

    def veth_without_offloads(self):
        if self.plain_pair is None:
            self.plain_pair = self.cleanup.enter_context(VethPair("p", offloads=False))
        return self.plain_pair

    def veth_with_thread(self):
        if self.thread_pair is None:
            self.thread_pair = self.cleanup.enter_context(VethPair("n", thread_on=self.programs.two_cpus()[0]))
        return self.thread_pair

    # ---- both ends in one process -----------------------------------------------------------------------------------

    def bulk(self, *options, mtu=1500):
        return self.wire("--bulk", "--low-latency", "--mtu", str(mtu), "--size", str(SEGMENT[mtu]), *options)

    def bulk_losing(self, every):
        """By chance, one frame in `every`, data and ACKs alike."""
        return self.bulk("--faults", f"drop=1/{every},on=transmit")

    def short(self):
        return self.wire("--short", "--connections", "64")

    def helper(self, name, case, *options, cpus, timeout=60):
        command = [self.programs.path(name), *case, *map(str, options)]
        out = self.programs.measure(command, cpus, timeout=timeout)
        if out.get("errors"):
            raise Unmeasurable(f"{name} counted {out['errors']} errors")
        return out

    def goodput(self, *options):
        return self.helper("cw-bench-goodput", (), "--loss", 0.01, "--rtt", 20, "--rate", 10**9, *options,
                           cpus=[self.programs.first_cpu])

    def idle_connections(self):
        return self.helper("cw-bench-connections", ("idle",), "--count", IDLE, "--duration", self.seconds,
                           cpus=[self.programs.first_cpu], timeout=240)

    def flood(self):
        cpus = self.programs.two_cpus()
        seconds = max(float(self.seconds), 1) * 2
        out = self.helper("cw-bench-connections", ("flood",), "--cpus", ",".join(map(str, cpus)), "--duration", seconds, cpus=cpus)
        return {**out, "share": 100 * out["completed"] / out["clients"]}

    # ---- a process at each end of a veth pair -----------------------------------------------------------------------

    def xdp(self, pair, side, mode):
        return ["--net=xdp", f"--xdp-mode={mode}", "--interface", DEVICE, "--address", f"{side.stack_address}/24"]

    def raw_bulk(self, mode, pair):
        """Bare frames, one way."""
        server_cpu, client_cpu = self.programs.two_cpus()
        port = ["--net=xdp", f"--xdp-mode={mode}", "--interface", DEVICE]
        sink = [self.programs.path("cw-echo"), *port, "--raw", "--discard"]
        source = self.pingpong(*port, "--raw", "--bulk", "--size", str(FRAME), "--duration", self.seconds)
        with self.programs.server(sink, [server_cpu], pair.a) as server:
            return self.sample(self.programs.measure(source, [client_cpu], pair.b, [server, *pair.threads]))

    def bulk_over_xdp(self, mode):
        """Our stack at both ends."""
        pair = self.veth()
        server_cpu, client_cpu = self.programs.two_cpus()
        sink = [self.programs.path("cw-echo"), *self.xdp(pair, pair.a, mode), "--port", ECHO_PORT, "--discard"]
        source = self.bulk_source(self.xdp(pair, pair.b, mode), f"{pair.a.stack_address}:{ECHO_PORT}")
        with self.programs.server(sink, [server_cpu], pair.a) as server:
            return self.sample(self.programs.measure(source, [client_cpu], pair.b, [server]))

    def bulk_source(self, port, to):
        return self.pingpong(*port, "--bulk", "--size", str(SEGMENT[1500]), "--duration", self.seconds, "--connect", to)

    @contextlib.contextmanager
    def kernel_sink(self, side, address, cpu):
        """cw-bench-stream on the kernel's sockets."""
        with self.programs.server([self.programs.path("cw-bench-stream"), "sink", STREAM_PORT], [cpu], side) as server:
            yield server, f"{address}:{STREAM_PORT}"

    def xdp_to_kernel(self, mode, pair):
        server_cpu, client_cpu = self.programs.two_cpus()
        with self.kernel_sink(pair.a, pair.a.kernel_address, server_cpu) as (server, to):
            port = ["--net=xdp", f"--xdp-mode={mode}", "--interface", DEVICE, "--address", f"{self.neighbour(pair.b)}/24"]
            return self.sample(self.programs.measure(self.bulk_source(port, to), [client_cpu], pair.b, [server, *pair.threads]))

    @staticmethod
    def neighbour(side):
        """An address of the kernel's network that no kernel has."""
        return side.kernel_address.rsplit(".", 1)[0] + f".1{side.kernel_address.rsplit('.', 1)[1]}"

    def tap_to_kernel(self):
        """The kernel at the other end of a TAP device of the program's own, in a namespace of its own."""
        pair = self.veth()
        server_cpu, client_cpu = self.programs.two_cpus()
        with self.kernel_sink(pair.b, TAP_NETWORK[0], server_cpu) as (server, to):
            port = ["--net=tap", "--interface", TAP, "--address", f"{TAP_NETWORK[1]}/24", "--host-address", f"{TAP_NETWORK[0]}/24"]
            return self.sample(self.programs.measure(self.bulk_source(port, to), [client_cpu], pair.b, [server]))

    def kernel_to_kernel(self):
        pair = self.veth_without_offloads()
        server_cpu, client_cpu = self.programs.two_cpus()
        with self.kernel_sink(pair.a, pair.a.kernel_address, server_cpu) as (server, _):
            source = [self.programs.path("cw-bench-stream"), "source", pair.a.kernel_address, STREAM_PORT, "--duration", self.seconds]
            out = self.programs.measure(source, [client_cpu], pair.b, [server])
        if out["errors"]:
            raise Unmeasurable("the kernel's stream lost bytes")
        return {"gbit_per_s": out["gbit_per_s"]}


def make_legs(t):
    legs = [
        Leg("bulk", t.bulk),
        *(Leg(f"bulk-losing-{n}", lambda n=n: t.bulk_losing(n)) for n in LOSSES),
        Leg("bulk-9000", lambda: t.bulk(mtu=9000)),
        Leg("short", t.short),
        Leg("flood", t.flood),
        Leg("kernel-to-kernel", t.kernel_to_kernel),
        Leg("tap-to-kernel", t.tap_to_kernel),
        Leg("goodput", t.goodput, exact=True),
        Leg("goodput-plain", lambda: t.goodput("--plain"), exact=True),
        Leg("idle", t.idle_connections, exact=True),
    ]
    for mode in XDP_MODES:
        legs += [Leg(f"xdp-{mode}-raw", lambda mode=mode: t.raw_bulk(mode, t.veth())),
                 Leg(f"xdp-{mode}-raw-to-thread", lambda mode=mode: t.raw_bulk(mode, t.veth_with_thread())),
                 Leg(f"xdp-{mode}", lambda mode=mode: t.bulk_over_xdp(mode)),
                 Leg(f"xdp-{mode}-to-kernel", lambda mode=mode: t.xdp_to_kernel(mode, t.veth_with_thread())),
                 Leg(f"xdp-{mode}-to-callee", lambda mode=mode: t.xdp_to_kernel(mode, t.veth()))]
    return {leg.name: leg for leg in legs}


# ---- from samples to figures ----------------------------------------------------------------------------------------

RATE = "gbit_per_s"


def faster(samples, suffix=""):
    """The leg of the mode that carries more."""
    return max((f"xdp-{mode}{suffix}" for mode in XDP_MODES), key=lambda leg: best(samples[leg], RATE))


def against_raw(samples):
    """The mode that is the faster for TCP; the bare frames went over the same one."""
    leg = faster(samples)
    mode = leg.split("-")[1]
    return Figure(best(samples[leg], RATE), best(samples[f"xdp-{mode}-raw"], RATE),
                  f"bare frames of 1,500 bytes, same port ({mode} mode)", column(samples[leg], RATE))


def to_kernel(samples):
    """At the kernel's end is no program: the bare frames' fastest way counts, over either pair, whichever mode is ours."""
    leg = faster(samples, "-to-kernel")
    bare = max((faster(samples, "-raw"), faster(samples, "-raw-to-thread")), key=lambda name: best(samples[name], RATE))
    figure = Figure(best(samples[leg], RATE), best(samples[bare], RATE), f"bare frames of 1,500 bytes, the fastest way ({bare})",
                    column(samples[leg], RATE))
    same_way = best(samples[leg], RATE) / best(samples[leg.replace("-to-kernel", "-raw-to-thread")], RATE)
    figure.note = (f"{same_way:.2f}x of bare frames over the same pair, in the same mode; "
                   f"{best(samples[faster(samples, '-to-callee')], RATE):.2f} Gbit/s to one whose work our system call does")
    return figure


def against_kernel(samples):
    leg = faster(samples)
    return Figure(best(samples[leg], RATE), best(samples["kernel-to-kernel"], RATE),
                  "the kernel's sockets on such a pair, offloads off", column(samples[leg], RATE))


def tap_against_xdp(samples):
    return Figure(best(samples["tap-to-kernel"], RATE), best(samples[faster(samples, "-to-kernel")], RATE),
                  "the same peer over xdp", column(samples["tap-to-kernel"], RATE))


def goodput(samples):
    return Figure(median(samples["goodput"], "mbit_per_s"), median(samples["goodput-plain"], "mbit_per_s"),
                  "NewReno without SACK and RACK, same losses", column(samples["goodput"], "mbit_per_s"))


def flood(samples):
    figure = at_median("flood", "share")(samples)
    figure.note = (f"{median(samples['flood'], 'syns_per_s'):,.0f} SYNs a second; slowest connect "
                   f"{max(column(samples['flood'], 'worst_connect_ms')):.1f} ms").replace(",", "'")
    return figure


def idle_kept(samples):
    kept = median(samples["idle"], "kept")
    figure = Figure(100 * kept, samples=[100 * k for k in column(samples["idle"], "kept")])
    figure.note = f"{median(samples['idle'], 'rate_alone'):,.0f} round trips a second alone".replace(",", "'")
    return figure


def both_modes(*suffixes):
    return tuple(f"xdp-{mode}{suffix}" for suffix in suffixes for mode in XDP_MODES)


def make_rows():
    return [
        Row("bulk-wire", "bulk TCP over wire, one connection, two shards, zero-copy, MTU 1,500", "Gbit/s", ("bulk",),
            (Target("value", ">=", 60),), at_best("bulk", RATE)),
        Row("bulk-wire-9000", "the same with an MTU of 9,000", "Gbit/s", ("bulk-9000",), (Target("value", ">=", 120),),
            at_best("bulk-9000", RATE)),
        *(Row(f"bulk-wire-loss-{n}", f"bulk over wire, one frame in {n:,} lost by chance", "Gbit/s", (f"bulk-losing-{n}", "bulk"),
              (Target("ratio", ">=", LOSS_FLOORS[n]),), at_best(f"bulk-losing-{n}", RATE, "bulk", RATE, "the same without losses"))
          for n in LOSSES),
        Row("bulk-xdp-vs-kernel", "bulk TCP over xdp on a veth pair, our stack at both ends", "Gbit/s",
            (*both_modes(""), "kernel-to-kernel"), (Target("ratio", ">=", 1.0),), against_kernel),
        Row("bulk-xdp-vs-raw", "the same against bare frames", "Gbit/s", both_modes("", "-raw"), (Target("ratio", ">=", 0.8),),
            against_raw),
        Row("bulk-xdp-to-kernel", "bulk TCP over xdp to a kernel at the other end of the veth pair, which receives in a thread", "Gbit/s",
            both_modes("-to-kernel", "-to-callee", "-raw", "-raw-to-thread"), (Target("ratio", ">=", 0.8),), to_kernel),
        Row("bulk-tap-to-kernel", "bulk TCP over tap to the kernel, super-frames with virtio headers", "Gbit/s",
            ("tap-to-kernel", *both_modes("-to-kernel")), (Target("ratio", ">=", 2.0),), tap_against_xdp),
        Row("goodput-1-percent", "goodput at 1 % chance loss, 20 ms, 1 Gbit/s, simulated: CUBIC and RACK", "Mbit/s",
            ("goodput", "goodput-plain"), (Target("ratio", ">=", 2.0),), goodput),
        Row("idle-bytes", "memory of an established idle connection, 1,000,000 on one shard", "bytes", ("idle",),
            (Target("value", "<=", 1024),), at_median("idle", "bytes_each")),
        Row("idle-kept", "rate that an active connection keeps beside them", "%", ("idle",), (Target("value", ">=", 80),), idle_kept),
        Row("short-wire", "connect, one request, close: over wire, one shard a side", "connections/s", ("short",),
            (Target("value", ">=", 300_000),), at_best("short", "rate")),
        Row("syn-flood-good", "good clients that complete beside a flood of SYNs, of 100", "%", ("flood",), (Target("value", ">=", 100),),
            flood),
        Row("syn-flood-memory", "growth of memory during the flood, from three tenths of its time on", "KiB", ("flood",),
            (Target("value", "<=", 1024),), at_median("flood", "growth_kib")),
    ]


def rows(programs, seconds, cleanup):
    return make_rows(), make_legs(Tcp(programs, seconds, cleanup))
