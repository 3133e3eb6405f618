"""Round trips, bulk and what they cost: the core of Corewire against the port below it, the kernel, and bare cores."""
import os
import time

from .. import counting
from ..figures import at_best, at_median, elsewhere, medians, paired
from ..network import DEVICE, VethPair
from ..process import free_port
from ..rows import Figure, Leg, Row, Target, Unmeasurable, column, median

SEGMENT = 1460            # bytes: TCP's payload in an Ethernet frame
ECHO_PORT = "7"
XDP_MODES = ("generic", "native")


class Rtt:
    """The legs of this suite: each method runs programs once and returns a sample."""

    def __init__(self, programs, seconds, cleanup):
        self.programs = programs
        self.seconds = f"{seconds:g}"
        self.cleanup = cleanup
        self.pair = None

    def veth(self):
        """The namespaces, made when first needed."""
        if self.pair is None:
            self.pair = self.cleanup.enter_context(VethPair())
        return self.pair

    @staticmethod
    def measured(out):
        """What a program printed, when anything went round: of nothing the quantiles are 0, which would hold any limit."""
        if not out["round_trips"]:
            raise Unmeasurable("nothing arrived")
        return out

    # ---- bare cores -------------------------------------------------------------------------------------------------

    def cacheline(self):
        a, b = self.programs.two_cpus()
        out = self.measured(self.programs.measure([self.programs.path("cw-bench-cacheline"), "--cpus", f"{a},{b}"], [a, b]))
        return {"p50": out["rtt_ns"]["p50"]}

    def submit(self, *options):
        cpus = self.programs.two_cpus()
        out = self.measured(self.programs.measure(
            [self.programs.path("cw-bench-submit"), "--cpus", ",".join(map(str, cpus)), "--duration", self.seconds,
             *options], cpus))
        return {"p50": out["rtt_ns"]["p50"], "p99": out["rtt_ns"]["p99"]}

    # ---- both ends in one process -----------------------------------------------------------------------------------

    def pingpong(self, *options):
        return [self.programs.path("cw-pingpong"), "--json", *options]

    def wire(self, *options, cpus=None):
        command = self.pingpong("--net=wire", "--duration", self.seconds, *options)
        return self.sample(self.programs.measure(command, cpus or self.programs.two_cpus()))

    def wire_same_core(self, *options):
        return self.wire("--same-core", *options, cpus=[self.programs.first_cpu])

    @staticmethod
    def sample(out):
        if out["errors"]:
            raise Unmeasurable(f"cw-pingpong counted {out['errors']} errors")
        Rtt.measured(out)
        sample = {"rate": out["rate"], "round_trips": out["round_trips"]}
        if out.get("rtt_ns"):
            sample["p50"] = out["rtt_ns"]["p50"]
        if "gbit_per_s" in out:
            sample["gbit_per_s"] = out["gbit_per_s"]
        if "port" in out:
            packets = out["port"]["received_packets"] + out["port"]["transmitted_packets"]
            sample["system_calls_per_frame"] = out["port"]["system_calls"] / packets
        if out["rate"] > 0:
            sample["ns_per_round_trip"] = 1e9 / out["rate"]
        return sample

    # ---- a process at each end of a veth pair -----------------------------------------------------------------------

    def over_xdp(self, mode, *options):
        pair = self.veth()
        server_cpu, client_cpu = self.programs.two_cpus()
        port = ["--net=xdp", f"--xdp-mode={mode}", "--interface", DEVICE]
        echo = [self.programs.path("cw-echo"), *port, "--address", f"{pair.a.stack_address}/24", "--port", ECHO_PORT]
        client = self.pingpong(*port, "--address", f"{pair.b.stack_address}/24", "--duration", self.seconds, *options)
        if "--raw" in options:
            echo.append("--raw")
        else:
            client += ["--connect", f"{pair.a.stack_address}:{ECHO_PORT}"]
        with self.programs.server(echo, [server_cpu], pair.a) as server:
            return self.sample(self.programs.measure(client, [client_cpu], pair.b, [server]))

    def over_kernel(self, *options):
        pair = self.veth()
        server_cpu, client_cpu = self.programs.two_cpus()
        echo = [self.programs.path("cw-echo"), "--net=kernel", "--port", ECHO_PORT]
        client = self.pingpong("--net=kernel", "--connect", f"{pair.a.kernel_address}:{ECHO_PORT}", "--duration",
                               self.seconds, *options)
        with self.programs.server(echo, [server_cpu], pair.a) as server:
            return self.sample(self.programs.measure(client, [client_cpu], pair.b, [server]))

    def kernel_echo(self, which):
        """The same client against either server, over loopback; the server decides the rate."""
        port = free_port()
        epoll = self.programs.path("cw-bench-epoll")
        echo = [epoll, "serve", port]
        if which == "cw-echo":
            echo = [self.programs.path("cw-echo"), "--net=kernel", "--port", port]
        server_cpu, client_cpu = self.programs.two_cpus()
        drive = [epoll, "drive", "127.0.0.1", port, "--connections", "16", "--duration", self.seconds]
        with self.programs.server(echo, [server_cpu]) as server:
            out = self.programs.measure(drive, [client_cpu], servers=[server])
        return {"rate": self.measured(out)["rate"]}

    # ---- exact counts -----------------------------------------------------------------------------------------------

    def counted_run(self, *options):
        # Under valgrind turns are long enough to be reported as stalls, and a report's stack costs millions of instructions.
        return lambda count: self.pingpong("--net=wire", "--same-core", "--stall-ms", "0", "--warmup", "0", "--count", str(count), *options)

    def instructions(self, short, long, *options):
        count = lambda command: counting.instructions(self.programs, command)
        return {"count": counting.per_operation(count, self.counted_run(*options), short, long)}

    def allocations(self):
        count = lambda command: counting.allocations(self.programs, command)
        # Rounded: a thousandth of an allocation a round trip is something that happens once in a run.
        return {"count": round(counting.per_operation(count, self.counted_run(), 2_000, 12_000), 3)}

    # ---- an idle process --------------------------------------------------------------------------------------------

    def idle(self, seconds=10):
        """Percent of one core, of the hungrier of two servers that nobody talks to: on kernel sockets, and on AF_XDP."""
        kernel = [self.programs.path("cw-echo"), "--net=kernel", "--port", free_port()]
        with self.programs.server(kernel, self.programs.two_cpus()) as server:
            percents = {"kernel": self.idle_percent(server, seconds)}
        pair = self.veth()
        xdp = [self.programs.path("cw-echo"), "--net=xdp", "--cores", "1", "--interface", DEVICE, "--address",
               f"{pair.a.stack_address}/24", "--port", ECHO_PORT]
        with self.programs.server(xdp, self.programs.two_cpus(), pair.a) as server:
            percents["xdp"] = self.idle_percent(server, seconds)
        return {"percent": max(percents.values()), **percents}

    @staticmethod
    def idle_percent(server, seconds):
        time.sleep(1)  # it has just started
        before, started = thread_nanoseconds(server.pid), time.monotonic()
        time.sleep(seconds)
        spent = thread_nanoseconds(server.pid) - before
        return 100 * spent / ((time.monotonic() - started) * 1e9)


def thread_nanoseconds(pid):
    """Time on a CPU of all threads of a process (proc(5), schedstat)."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as stat:
            total += int(stat.read().split()[0])
    return total


def make_legs(r):
    legs = [
        Leg("wire", r.wire),
        Leg("cacheline", r.cacheline),  # between the two that are compared with it
        Leg("submit-idle", r.submit),
        Leg("submit-busy", lambda: r.submit("--busy")),
        Leg("same-core", r.wire_same_core),
        Leg("same-core-64", lambda: r.wire_same_core("--connections", "64")),
        Leg("wire-64x8", lambda: r.wire("--connections", "64", "--pipeline", "8")),
        Leg("bulk", lambda: r.wire("--bulk", "--size", str(SEGMENT))),
        Leg("bulk-dropping", lambda: r.wire("--bulk", "--size", str(SEGMENT), "--drop-every", "1000")),
        Leg("kernel", lambda: r.over_kernel()),
        Leg("kernel-echo", lambda: r.kernel_echo("cw-echo")),
        Leg("epoll-echo", lambda: r.kernel_echo("epoll")),
        Leg("xdp-burst", lambda: r.over_xdp("generic", "--udp", "--pipeline", "32", "--statistics")),
        Leg("instructions-rtt", lambda: r.instructions(2_000, 102_000), exact=True),
        Leg("instructions-bulk", lambda: r.instructions(20_000, 60_000, "--bulk", "--size", str(SEGMENT)), exact=True),
        Leg("allocations", r.allocations, exact=True),
        Leg("idle", r.idle, exact=True),
    ]
    for mode in XDP_MODES:
        legs += [Leg(f"xdp-{mode}-raw", lambda mode=mode: r.over_xdp(mode, "--raw")),
                 Leg(f"xdp-{mode}-tcp", lambda mode=mode: r.over_xdp(mode)),
                 Leg(f"xdp-{mode}-udp", lambda mode=mode: r.over_xdp(mode, "--udp"))]
    return {leg.name: leg for leg in legs}


# ---- from samples to figures ----------------------------------------------------------------------------------------

def faster_mode(samples, protocol):
    return min(XDP_MODES, key=lambda mode: median(samples[f"xdp-{mode}-{protocol}"], "p50"))


def against_raw(protocol):
    """The mode that is the faster for this protocol; the raw frames went over the same mode."""
    def compute(samples):
        mode = faster_mode(samples, protocol)
        leg = f"xdp-{mode}-{protocol}"
        return Figure(median(samples[leg], "p50"), median(samples[f"xdp-{mode}-raw"], "p50"),
                      f"raw frames, same port ({mode} mode)", column(samples[leg], "p50"))
    return compute


def against_kernel(samples):
    leg = f"xdp-{faster_mode(samples, 'tcp')}-tcp"
    return Figure(median(samples[leg], "p50"), median(samples["kernel"], "p50"),
                  "the same programs with --net=kernel on the same veth pair", column(samples[leg], "p50"))


def xdp_legs(*protocols):
    return tuple(f"xdp-{mode}-{protocol}" for protocol in protocols for mode in XDP_MODES)


CACHELINE = "a bare cache line between the same two cores"


def make_rows():
    return [
        Row("tcp-64B-xdp-vs-raw", "TCP 64 B ping-pong over xdp, p50, against raw frames on the same port", "ns",
            xdp_legs("raw", "tcp"), (Target("ratio", "<=", 1.35),), against_raw("tcp")),
        Row("udp-64B-xdp-vs-raw", "UDP 64 B ping-pong over xdp, p50, against raw frames on the same port", "ns",
            xdp_legs("raw", "udp"), (Target("ratio", "<=", 1.2),), against_raw("udp")),
        Row("tcp-64B-xdp-vs-kernel", "TCP 64 B ping-pong over xdp, p50, against kernel sockets", "ns",
            (*xdp_legs("tcp"), "kernel"), (Target("ratio", "<=", 0.40),), against_kernel),
        Row("tcp-64B-wire", "TCP 64 B ping-pong over wire, two shards on two cores, p50", "ns", ("wire", "cacheline"),
            (Target("value", "<=", 1200), Target("ratio", "<=", 4.5)), paired("wire", "p50", "cacheline", CACHELINE)),
        Row("tcp-64B-same-core", "TCP 64 B ping-pong, both ends on one core, p50", "ns", ("same-core",),
            (Target("value", "<=", 650),),
            elsewhere("same-core", "p50", 1310, "Seastar's native stack, measured earlier on this kind of machine")),
        Row("tcp-64B-same-core-64", "the same with 64 connections, time a round trip", "ns", ("same-core-64",),
            (Target("value", "<=", 400),),
            elsewhere("same-core-64", "ns_per_round_trip", 770,
                      "Seastar's native stack, measured earlier on this kind of machine")),
        Row("tcp-64B-wire-64x8", "TCP 64 B echo over wire, two shards, 64 connections x pipeline 8", "round trips/s",
            ("wire-64x8",), (Target("value", ">=", 3_000_000),), at_best("wire-64x8", "rate")),
        Row("bulk-wire-1460", "bulk TCP over wire, one connection, 1,460-byte segments, owned buffers", "Gbit/s", ("bulk",),
            (Target("value", ">=", 40),), at_best("bulk", "gbit_per_s")),
        Row("bulk-wire-drop-1000", "the same with every 1,000th frame dropped", "Gbit/s", ("bulk-dropping", "bulk"),
            (Target("ratio", ">=", 0.5),),
            at_best("bulk-dropping", "gbit_per_s", "bulk", "gbit_per_s", "the same without drops")),
        Row("kernel-echo-vs-epoll", "cw-echo --net=kernel, 16 connections, against a bare epoll loop", "round trips/s",
            ("kernel-echo", "epoll-echo"), (Target("ratio", ">=", 0.9),),
            medians("kernel-echo", "rate", "epoll-echo", "cw-bench-epoll serve, same client")),
        Row("tcp-64B-instructions", "instructions of one TCP 64 B round trip, both ends", "instructions",
            ("instructions-rtt",), (Target("value", "<=", 2400),),
            elsewhere("instructions-rtt", "count", 8027, "lwIP's raw API, counted earlier")),
        Row("bulk-segment-instructions", "instructions per 1,460-byte segment in bulk, both ends", "instructions",
            ("instructions-bulk",), (Target("value", "<=", 2000),),
            elsewhere("instructions-bulk", "count", 12748, "lwIP's raw API, counted earlier")),
        Row("tcp-64B-allocations", "heap allocations of one TCP 64 B round trip, both ends", "allocations",
            ("allocations",), (Target("value", "<=", 0),), at_median("allocations", "count")),
        Row("xdp-system-calls", "system calls a frame over xdp, 32 in flight", "calls", ("xdp-burst",),
            (Target("value", "<=", 1 / 16),), at_median("xdp-burst", "system_calls_per_frame")),
        Row("submit-idle", "submit_to round trip between two spinning shards, p50", "ns", ("submit-idle", "cacheline"),
            (Target("ratio", "<=", 3),), paired("submit-idle", "p50", "cacheline", CACHELINE)),
        Row("submit-busy", "submit_to round trip to a shard that always has tasks ready, p99", "ns", ("submit-busy",),
            (Target("value", "<=", 50_000),),
            elsewhere("submit-busy", "p99", 1_600_000, "a framework that looks at its inbox between quanta")),
        Row("idle-cpu", "an idle process, no traffic, 10 s", "% of one core", ("idle",), (Target("value", "<=", 1),),
            at_median("idle", "percent")),
    ]


def rows(programs, seconds, cleanup):
    return make_rows(), make_legs(Rtt(programs, seconds, cleanup))
