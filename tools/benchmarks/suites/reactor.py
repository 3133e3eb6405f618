"""What a core does besides networks: tasks, timers, io_uring, files, metrics.

A topic is a helper program, tools/bench-TOPIC/main.cc, called as `cw-bench-TOPIC CASE [options]`: it runs the case for
`--duration` seconds on one CPU and prints one flat JSON object of numbers, which is the leg's sample. The baseline of a row is
another case of the same program, or a program of the system's, in the same round.
To add a row: the case, a Leg in its topic's list below, and a Row beside it."""
import contextlib
import os
import shutil
import tempfile

from ..figures import at_best, at_median, medians, paired
from ..rows import Leg, Row, Target, Unmeasurable, median

LIVE_TIMERS = 1_000_000
NOPS_IN_FLIGHT = 64
READS_IN_FLIGHT = 64
FILE_BYTES = 1 << 30
ROOM = {"disk": 4 * FILE_BYTES, "tmpfs": FILE_BYTES * 5 // 4}  # the file and its copy, with something to spare; of tmpfs it is only read


class Reactor:
    """What the legs share."""

    def __init__(self, programs, seconds, cleanup):
        self.programs = programs
        self.seconds = f"{seconds:g}"
        self.cleanup = cleanup  # an ExitStack: enter what must be removed after the run (a temporary file, a mount)

    def helper(self, topic, case, *options):
        """One sample: the numbers that `cw-bench-TOPIC CASE` prints."""
        command = [self.programs.path(f"cw-bench-{topic}"), case, "--duration", self.seconds, *map(str, options)]
        return self.programs.measure(command, [self.programs.first_cpu])

    def leg(self, topic, case, *options, name=None):
        return Leg(name or case, lambda: self.helper(topic, case, *options))


# ---- tasks: cw-bench-tasks, each case prints {"ns": an operation} ------------------------------------------------------

def task_legs(r):
    return [
        r.leg("tasks", "ready"),              # co_await of a task that finishes at once
        r.leg("tasks", "ready-malloc"),       # the same loop over a coroutine type whose frames come from operator new
        r.leg("tasks", "switch"),             # two tasks that are always ready, in turn
        r.leg("tasks", "yield"),              # one coroutine that yields
        r.leg("tasks", "error-result"),       # an error in a result<T> through three coroutines
        r.leg("tasks", "error-exception"),    # an exception through the same three
        r.leg("tasks", "semaphore"),          # acquire and release, nobody else wants it
    ]


def task_rows():
    return [
        Row("task-ready", "co_await of a task that finishes at once", "ns", ("ready", "ready-malloc"),
            (Target("value", "<=", 6), Target("ratio", "<=", 0.5)),
            paired("ready", "ns", "ready-malloc", "the same loop with the default allocator")),
        Row("task-switch", "switching between two ready tasks", "ns", ("switch",), (Target("value", "<=", 15),),
            at_median("switch", "ns")),
        Row("task-yield", "a coroutine that yields once", "ns", ("yield",), (Target("value", "<=", 20),),
            at_median("yield", "ns")),
        Row("error-result", "an error carried by a result through three coroutines", "ns", ("error-result",),
            (Target("value", "<=", 40),), at_median("error-result", "ns")),
        Row("error-exception", "an exception thrown through three coroutines", "ns", ("error-exception",),
            (Target("value", "<=", 2000),), at_median("error-exception", "ns")),
        Row("semaphore", "semaphore acquire and release, uncontended", "ns", ("semaphore",), (Target("value", "<=", 8),),
            at_median("semaphore", "ns")),
    ]


# ---- timers: cw-bench-timers --------------------------------------------------------------------------------------------

def timer_legs(r):
    return [
        r.leg("timers", "fresh", "--live", LIVE_TIMERS, name="timers-fresh"),
        r.leg("timers", "any", "--live", LIVE_TIMERS, name="timers-any"),
    ]


def timer_figure(samples):
    figure = at_median("timers-fresh", "ns")(samples)
    figure.note = f"cancelling any one of the million, in cold memory, and arming it again: {median(samples['timers-any'], 'ns'):.0f} ns"
    return figure


def timer_rows():
    return [
        Row("timer-arm-cancel", "arm and cancel a timer while 1 M others are armed", "ns", ("timers-fresh", "timers-any"),
            (Target("value", "<=", 60),), timer_figure),
    ]


# ---- io_uring: cw-bench-nops --------------------------------------------------------------------------------------------

def uring_legs(r):
    return [
        r.leg("nops", "reactor", "--depth", NOPS_IN_FLIGHT, name="nops-reactor"),
        r.leg("nops", "bare", "--depth", NOPS_IN_FLIGHT, name="nops-bare"),
    ]


def uring_rows():
    return [
        Row("uring-nops", "io_uring NOPs on one shard, 64 in flight", "NOPs/s", ("nops-reactor", "nops-bare"),
            (Target("ratio", ">=", 0.9),),
            paired("nops-reactor", "rate", "nops-bare", "a bare liburing loop, same ring flags, same depth")),
    ]


# ---- files: cw-bench-files, fio, cp, dd ---------------------------------------------------------------------------------

class Files:
    """A file on the disk (beside the build) and one on tmpfs, made when first needed and removed after the run."""

    def __init__(self, r):
        self.r = r
        self.made = {}

    def directory(self, where):
        """On the file system of the build, or on tmpfs."""
        if where not in self.made:
            folder = "/dev/shm" if where == "tmpfs" else self.r.programs.build
            if shutil.disk_usage(folder).free < ROOM[where]:
                raise Unmeasurable(f"{folder} has no room for the files of this row ({ROOM[where] / (1 << 30):g} GiB)")
            path = tempfile.mkdtemp(prefix="cw-bench-", dir=folder)
            self.r.cleanup.callback(shutil.rmtree, path, ignore_errors=True)
            self.r.helper("files", "prepare", "--file", f"{path}/data", "--size", FILE_BYTES)
            self.made[where] = path
        return self.made[where]

    def read(self, where, *options):
        return self.r.helper("files", "random-read", "--file", f"{self.directory(where)}/data", "--depth", READS_IN_FLIGHT, *options)

    def fio(self, where, direct):
        """The same reads by fio: same depth, registered buffer and file, one thread on the same CPU."""
        programs = self.r.programs
        command = [programs.tool("fio", "fio"), "--name=read", f"--filename={self.directory(where)}/data", f"--direct={direct}",
                   "--rw=randread", "--bs=4k", f"--iodepth={READS_IN_FLIGHT}", "--ioengine=io_uring", "--registerfiles=1",
                   "--fixedbufs=1", "--norandommap", "--time_based", f"--runtime={int(float(self.r.seconds) * 1000)}ms",
                   "--ramp_time=100ms", "--thread", "--output-format=json"]
        out = programs.measure(command, [programs.first_cpu])
        return {"rate": out["jobs"][0]["read"]["iops"]}

    def copy(self, by, *options):
        """Into a new file, on a disk that has nothing left to write. Behind a copy that does not count, made by the baseline's program
        with the same caching: what is free, in memory and on the disk, is then the same for both."""
        path = self.directory("disk")
        before = "dd" if "--direct" in options else "cp"
        for program in (before, by):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}/copy")
            os.sync()
            out = self.r.helper("files", program, "--file", f"{path}/data", "--to", f"{path}/copy", "--size", FILE_BYTES, *options)
        return out


def file_legs(r):
    files = Files(r)
    return [
        Leg("read-disk", lambda: files.read("disk", "--direct")),
        Leg("fio-disk", lambda: files.fio("disk", 1)),
        Leg("read-tmpfs", lambda: files.read("tmpfs")),
        Leg("fio-tmpfs", lambda: files.fio("tmpfs", 0)),
        Leg("copy", lambda: files.copy("copy")),
        Leg("cp", lambda: files.copy("cp")),
        Leg("copy-direct", lambda: files.copy("copy", "--direct")),
        Leg("dd-direct", lambda: files.copy("dd", "--direct")),
    ]


def file_rows():
    fio = "fio --ioengine=io_uring with the same options"
    return [
        Row("read-4k-disk", "4 KiB random reads, O_DIRECT, queue depth 64, one shard, this machine's disk", "IOPS",
            ("read-disk", "fio-disk"), (Target("ratio", ">=", 0.95),), medians("read-disk", "rate", "fio-disk", fio)),
        Row("read-4k-tmpfs", "4 KiB random reads, queue depth 64, one shard, tmpfs", "IOPS", ("read-tmpfs", "fio-tmpfs"),
            (Target("ratio", ">=", 0.95),), medians("read-tmpfs", "rate", "fio-tmpfs", fio)),
        Row("copy-1g", "sequential copy of 1 GiB through the page cache", "MB/s", ("copy", "cp"), (Target("ratio", ">=", 1.0),),
            at_best("copy", "rate", "cp", "rate", "cp with the same caching")),
        Row("copy-1g-direct", "sequential copy of 1 GiB with O_DIRECT, 1 MiB blocks", "MB/s", ("copy-direct", "dd-direct"),
            (Target("ratio", ">=", 1.0),), at_best("copy-direct", "rate", "dd-direct", "rate", "dd with the same flags and blocks")),
    ]


# ---- metrics: cw-bench-scrape -------------------------------------------------------------------------------------------

def metric_legs(r):
    return [r.leg("scrape", "series", "--series", 10_000, name="scrape")]


def metric_rows():
    return [
        Row("scrape-10k", "a scrape with 10,000 series", "ms of one core", ("scrape",), (Target("value", "<=", 5),),
            at_median("scrape", "ms")),
        Row("scrape-p99", "how far a scrape moves a connection's p99", "us", ("scrape",), (Target("value", "<=", 20),),
            at_median("scrape", "p99_moves_us")),
    ]


TOPICS = ((task_legs, task_rows), (timer_legs, timer_rows), (uring_legs, uring_rows), (file_legs, file_rows),
          (metric_legs, metric_rows))


def rows(programs, seconds, cleanup):
    bench = Reactor(programs, seconds, cleanup)
    legs = [leg for make_legs, _ in TOPICS for leg in make_legs(bench)]
    return [row for _, make_rows in TOPICS for row in make_rows()], {leg.name: leg for leg in legs}
