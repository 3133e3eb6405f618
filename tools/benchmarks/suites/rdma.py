"""What the `verbs` port costs, on a NIC in memory: instructions a frame, doorbells, completions that were asked for.

Instructions are those of the port, the frame pool and the loop of cw-bench-verbs that makes or drops the packets; what the
fake NIC does in place of hardware and driver is taken away, call by call (counting.instructions_without)."""
import os
import statistics

from .. import counting, rdma_vm
from ..rows import Figure, Leg, Row, Target

FAKE = "corewire::fake::"
BURST = 32
SIZES = (64, 512)  # bytes: one goes inline, one by reference


class Rdma:
    def __init__(self, programs, seconds, cleanup):
        self.programs = programs

    def command(self, what, size, count, *options):
        return [self.programs.path("cw-bench-verbs"), what, "--size", str(size), "--count", str(count), *options]

    def instructions(self, what):
        """The dearer of the two sizes, of both ways to post."""
        ways = ((), ("--chain",)) if what == "send" else ((),)
        found = {}
        for size in SIZES:
            for way in ways:
                count = lambda command: counting.instructions_without(self.programs, command, FAKE)
                per_frame = counting.per_operation(count, lambda n: self.command(what, size, n, *way), 320, 6400)
                found[f"{size} bytes{''.join(way).replace('--', ', ')}"] = per_frame
        return {"count": max(found.values()), "each": found}

    def doorbells(self):
        out = self.programs.measure(self.command("send", SIZES[1], 100 * BURST), [self.programs.first_cpu])
        return {"doorbells": out["doorbells"] / out["frames"], "unsignalled": 1 - out["signalled"] / out["frames"]}


    def in_the_vm(self):
        for each in rdma_vm.PROGRAMS:
            self.programs.path(each)
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        return rdma_vm.sample(source, os.path.join(os.path.abspath(self.programs.build), "bin"))


def against_perftest(kind):
    def compute(samples):
        sample = samples["rdma-vm"][0]
        ours, theirs = sample[f"ours-{kind}"], sample[f"theirs-{kind}"]
        tool = "ib_write_bw" if kind == "write" else "ib_send_lat"
        return Figure(statistics.median(ours), statistics.median(theirs), f"{tool}, in turn in the same machine", samples=ours,
                      note=rdma_vm.told_of(kind, sample))
    return compute


def tcp_against_rc(samples):
    sample = samples["rdma-vm"][0]
    tcp, rc = sample["ours-tcp"], sample["ours-rc"]
    return Figure(statistics.median(tcp), statistics.median(rc), "cw-rdma-pingpong --protocol rc-send, in turn in the same machine",
                  samples=tcp)


def counted(leg):
    def compute(samples):
        sample = samples[leg][0]
        each = "; ".join(f"{name}: {value:.1f}" for name, value in sample["each"].items())
        return Figure(sample["count"], samples=[sample["count"]], note=each)
    return compute


def value(leg, key):
    return lambda samples: Figure(samples[leg][0][key], samples=[samples[leg][0][key]])


def rows(programs, seconds, cleanup):
    bench = Rdma(programs, seconds, cleanup)
    legs = [
        Leg("verbs-receive", lambda: bench.instructions("receive"), exact=True),
        Leg("verbs-send", lambda: bench.instructions("send"), exact=True),
        Leg("verbs-doorbells", bench.doorbells, exact=True),
        Leg("rdma-vm", bench.in_the_vm, exact=True),
    ]
    return [
        Row("verbs-receive-instructions", "instructions per frame received through the verbs port, bursts of 32", "instructions",
            ("verbs-receive",), (Target("value", "<=", 120),), counted("verbs-receive")),
        Row("verbs-send-instructions", "instructions per frame sent through the verbs port, bursts of 32", "instructions",
            ("verbs-send",), (Target("value", "<=", 120),), counted("verbs-send")),
        Row("verbs-doorbells", "doorbells per frame sent in bursts of 32", "doorbells", ("verbs-doorbells",),
            (Target("value", "<=", 1 / 16),), value("verbs-doorbells", "doorbells")),
        Row("verbs-unsignalled", "share of sends that ask for no completion, bursts of 32", "of all", ("verbs-doorbells",),
            (Target("value", ">=", 15 / 16),), value("verbs-doorbells", "unsignalled")),
        Row("rdma-rc-send-vs-perftest", "64-byte RC round trip over rdma_rxe in the virtual machine, both ends spinning", "ns",
            ("rdma-vm",), (Target("ratio", "<=", 1.15),), against_perftest("rc")),
        Row("rdma-ud-vs-perftest", "64-byte UD round trip over rdma_rxe in the virtual machine, both ends spinning", "ns",
            ("rdma-vm",), (Target("ratio", "<=", 1.15),), against_perftest("ud")),
        Row("rdma-write-vs-perftest", "64 KiB RC writes over rdma_rxe in the virtual machine, 128 at a time", "bytes/s",
            ("rdma-vm",), (Target("ratio", ">=", 0.95),), against_perftest("write")),
        Row("tcp-64B-verbs-ud-vs-rc", "64-byte TCP round trip over verbs-ud and rdma_rxe in the virtual machine, both ends spinning",
            "ns", ("rdma-vm",), (Target("ratio", "<=", 2.0),), tcp_against_rc),
    ], {leg.name: leg for leg in legs}
