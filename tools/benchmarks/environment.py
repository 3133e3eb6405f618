"""Where a measurement was made: enough to tell two reports apart."""
import datetime
import os
import platform
import subprocess


def _first_line(command, cwd=None):
    try:
        out = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=True, timeout=10).stdout
        return out.splitlines()[0].strip() if out else "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _cpu():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def _compiler(build):
    """The compiler that the build directory was configured with."""
    try:
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
            for line in cache:
                if line.startswith("CMAKE_CXX_COMPILER:"):
                    return _first_line([line.split("=", 1)[1].strip(), "--version"])
    except OSError:
        pass
    return "unknown"


def _commit(source, build):
    commit = _first_line(["git", "rev-parse", "--short=12", "HEAD"], cwd=source)
    dirty = _first_line(["git", "status", "--porcelain", "--untracked-files=no"], cwd=source)
    return commit + ("+changes" if dirty != "unknown" else "") + ("+stale" if _is_stale(source, build) else "")


def _is_stale(source, build):
    """Is a source newer than all programs? Then they were built of something else."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "apps", "net", "rdma", "reactor", "tools"], cwd=source, capture_output=True,
                                text=True, check=True, timeout=10).stdout
        programs = [entry.stat().st_mtime for entry in os.scandir(os.path.join(build, "bin"))]
    except (OSError, subprocess.SubprocessError):
        return False
    sources = [os.path.join(source, name) for name in listed.split("\0") if name.endswith((".cc", ".hh", ".c"))]
    return max((os.path.getmtime(each) for each in sources if os.path.exists(each)), default=0) > max(programs, default=float("inf"))


def describe(source, build):
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "compiler": _compiler(build),
        "commit": _commit(source, build),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
