"""Keeps other people's work out of the figures: waits for idle CPUs, and tells how much of them others took."""
import os
import time

TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """CPU time that all CPUs together have spent on anything, steal by the hypervisor included."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(n) for n in stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def process_seconds(pid):
    """CPU time of all threads of a process, alive or joined; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


class Patience:
    """Waits until the CPUs are idle, a bounded time in all, so that a busy machine delays a report and never stops it."""

    def __init__(self, total_seconds):
        self.left = total_seconds
        self.gave_up = False

    def wait(self, own_pids=(), busy_allowed=0.03, look=0.2):
        """True when nobody but `own_pids` has used the CPUs for a moment; False when patience is at its end."""
        while True:
            watch = Watch(own_pids)
            time.sleep(look)
            if watch.foreign_share(0) <= busy_allowed * (os.cpu_count() or 1):
                return True
            self.left -= look
            if self.left <= 0:
                self.gave_up = True
                return False


class Watch:
    """How much CPU time others took while something of ours ran, as a share of one CPU."""

    def __init__(self, pids=()):
        self.pids = list(pids)
        self.own_before = sum(process_seconds(p) for p in self.pids)
        self.busy_before = busy_seconds()
        self.started = time.monotonic()

    def foreign_share(self, own_exited_seconds):
        """`own_exited_seconds`: CPU time of processes of ours that have ended meanwhile."""
        elapsed = max(time.monotonic() - self.started, 1e-3)
        own = own_exited_seconds + sum(process_seconds(p) for p in self.pids) - self.own_before
        return max(busy_seconds() - self.busy_before - own, 0.0) / elapsed
