"""Runs the programs: each in a fresh process, pinned, ended when its figures are in."""
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess

from . import quiet
from .rows import Unmeasurable

FOREIGN_SHARE = 0.03  # of one CPU: each end is to have at least 0.97 of its core
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
ATTEMPTS = 3          # at one sample, when others used the CPUs meanwhile


class Programs:
    """Where the binaries are and which CPUs they may have."""

    def __init__(self, build, patience):
        self.build = build
        self.patience = patience
        allowed = sorted(os.sched_getaffinity(0))
        self.first_cpu = allowed[0]
        self.second_cpu = allowed[1] if len(allowed) > 1 else None
        self.disturbed_samples = 0

    def path(self, name):
        """A program of ours."""
        path = os.path.join(self.build, "bin", name)
        if not os.access(path, os.X_OK):
            raise Unmeasurable(f"{path} is missing: cmake --build {self.build}")
        return path

    @staticmethod
    def tool(name, package):
        """A program of the system's."""
        path = shutil.which(name)
        if path is None:
            raise Unmeasurable(f"{name} is missing: apt-get install {package}")
        return path

    def two_cpus(self):
        if self.second_cpu is None:
            raise Unmeasurable("needs two CPUs")
        return self.first_cpu, self.second_cpu

    def measure(self, command, cpus, side=None, servers=(), timeout=60):
        """The JSON object that `command` prints. Waits for a quiet machine, and repeats the sample when others took more
        than 3 % of a CPU meanwhile. `servers`: processes of ours that work for it."""
        pids = [s.pid for s in servers]
        for _ in range(ATTEMPTS):
            self.patience.wait(pids)
            watch = quiet.Watch(pids)
            output, cpu_seconds = self._run(command, cpus, side, timeout)
            if watch.foreign_share(cpu_seconds) <= FOREIGN_SHARE:
                break
        else:
            self.disturbed_samples += 1
        try:
            return json.loads(output)
        except ValueError as e:
            raise Unmeasurable(f"{os.path.basename(command[0])} printed no JSON: {output.strip()[:120]!r}") from e

    def _run(self, command, cpus, side, timeout):
        """Standard output, and the CPU time it took."""
        before = os.times()
        process = start(pinned(command, cpus, side))
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as e:
            raise Unmeasurable(f"{' '.join(command)} did not end within {timeout} s") from e
        finally:
            end(process)
        after = os.times()
        if process.returncode != 0:
            why = (errors.strip().splitlines() or ["no message"])[-1]
            raise Unmeasurable(f"{os.path.basename(command[0])} exited with {process.returncode}: {why[:300]}")
        return output, after.children_user + after.children_system - before.children_user - before.children_system

    @contextlib.contextmanager
    def server(self, command, cpus, side=None):
        """A program that runs until the block ends; the block begins when its first line of output says that it serves. One that
        ended before the block did has not been measured, whoever answered in its place."""
        process = start(pinned(command, cpus, side))
        try:
            _await_line(process, command)
            try:
                yield process
            except Exception as e:
                if process.poll() is not None:
                    raise Unmeasurable(_how_it_ended(process, command)) from e
                raise
            if process.poll() is not None:
                raise Unmeasurable(_how_it_ended(process, command))
        finally:
            end(process)


def pinned(command, cpus, side=None):
    cpu_list = ",".join(str(c) for c in cpus)
    return (side.prefix() if side else []) + ["taskset", "-c", cpu_list] + list(command)


def start(command):
    """It ends with us, however we end: a server that a killed run has left would answer the next one's clients."""
    ours = os.getpid()

    def end_with_us():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != ours:
            os._exit(143)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=end_with_us)


def end(process):
    """SIGTERM, and SIGKILL for what does not listen."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def _await_line(process, command, seconds=10):
    readable, _, _ = select.select([process.stdout], [], [], seconds)
    if readable and process.stdout.readline():
        return
    if readable:  # the end of its output: it ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    end_of = "" if process.poll() is None else f": {process.stderr.read().strip()[-300:]}"
    raise Unmeasurable(f"{os.path.basename(command[0])} did not start{end_of}")


def _how_it_ended(process, command):
    why = (process.stderr.read().strip().splitlines() or ["no message"])[-1]
    return f"{os.path.basename(command[0])} ended while it was measured, with {process.returncode}: {why[:300]}"


def free_port():
    """A TCP port that nobody listens on, in digits: at a fixed one another program might answer, such as what a killed run has left."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return str(probe.getsockname()[1])
