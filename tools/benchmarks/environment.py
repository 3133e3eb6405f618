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


def _commit(source):
    commit = _first_line(["git", "rev-parse", "--short=12", "HEAD"], cwd=source)
    dirty = _first_line(["git", "status", "--porcelain", "--untracked-files=no"], cwd=source)
    return commit + ("+changes" if dirty != "unknown" else "")


def describe(source, build):
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "compiler": _compiler(build),
        "commit": _commit(source),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
