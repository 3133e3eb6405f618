"""The script language: timed steps, and a few headers. README.md describes it."""
import re
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = ("known", "sysctl", "mode", "flags", "segments", "mtu", "end")
SEGMENTS = ("whole", "cut", "single")
MODES = ("ipv4", "mapped", "ipv6")
BLOCKS = "..."

# What both sides start from; a script's own `sysctl` lines go on top.
SYSCTLS = {
    "tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304", "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "1", "tcp_notsent_lowat": "4294967295", "tcp_timestamps": "1", "tcp_sack": "1", "tcp_ecn": "2",
    "tcp_fastopen": "1", "tcp_syn_retries": "6", "tcp_mtu_probing": "0", "tcp_early_retrans": "3", "tcp_syn_linear_timeouts": "4",
    "tcp_dsack": "1", "tcp_window_scaling": "1", "tcp_moderate_rcvbuf": "1", "tcp_syncookies": "1", "tcp_fin_timeout": "60",
    "tcp_no_metrics_save": "1", "tcp_autocorking": "1", "tcp_recovery": "1", "tcp_frto": "2", "tcp_reordering": "3",
    "tcp_tw_reuse": "2", "tcp_min_tso_segs": "2", "tcp_invalid_ratelimit": "500", "tcp_ecn_fallback": "1", "tcp_ecn_option": "2",
    "tcp_ecn_option_beacon": "3",
}


class BadScript(Exception):
    """What is wrong, and in which line."""


@dataclass
class Step:
    line: int         # in the file, from 1
    relative: bool    # is `seconds` counted from the step before?
    seconds: float
    blocks: bool      # a call that may block: it runs in a thread of its own
    what: str
    names: "int | None" = None  # `= N`: the descriptor that a call returns is N from here on


@dataclass
class Script:
    steps: list
    known: list = field(default_factory=list)   # numbers of differences.md
    sysctls: dict = field(default_factory=dict)
    mode: str = "ipv4"
    flags: str = "linux"  # the so_flags of the library
    segments: str = "whole"  # as the library's so_flags have it
    mtu: "int | None" = None
    end: float = 0.05     # seconds that are played after the last step


def read(path):
    """The script in the file; raises BadScript."""
    script = Script([])
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        line = re.sub(r"(^|\s)//.*", "", line).strip()
        if not line:
            continue
        first, _, rest = line.partition(" ")
        try:
            if first in HEADERS:
                _header(script, first, rest.strip())
            else:
                script.steps.append(_step(number, first, rest.strip()))
        except ValueError as e:
            raise BadScript(f"{path}:{number}: {e}") from e
    return script


def _header(script, name, value):
    if name == "known":
        script.known += [int(n) for n in value.split()]
    elif name == "sysctl":
        key, equals, setting = value.partition("=")
        if not equals:
            raise ValueError("sysctl NAME=VALUE")
        script.sysctls[key.strip()] = setting.strip().strip('"')
    elif name == "mode":
        script.mode = value.split()[0]
        if script.mode not in MODES:
            raise ValueError(f"mode {' | '.join(MODES)}")
    elif name == "flags":
        script.flags = value
    elif name == "segments":
        script.segments = value
        if value not in SEGMENTS:
            raise ValueError(f"segments {' | '.join(SEGMENTS)}")
    elif name == "mtu":
        script.mtu = int(value)
    else:
        script.end = float(value)


def _step(number, when, what):
    when, blocks, _ = when.partition(BLOCKS)
    step = Step(number, when.startswith("+"), float(when.lstrip("+") or 0), bool(blocks), what)
    if not what:
        raise ValueError("a time without a step")
    result = re.match(r"^(.*\))\s*=\s*(-?\d+)\s*(E\w+)?$", what)
    if result and not what.startswith("<"):
        step.what, step.names = result[1], int(result[2])
    return step
