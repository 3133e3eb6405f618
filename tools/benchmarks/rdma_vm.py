"""Over a real RDMA driver, in one run of the virtual machine of tests/vm: round trips, cw-rdma-pingpong and perftest's ib_send_lat in
turn; TCP over `verbs-ud` beside them; bandwidth, cw-rdma-perf and ib_write_bw. Emulated time says nothing by itself; ratios within
one run do."""
import json
import math
import os
import re
import subprocess
import tempfile

from .rows import Unmeasurable

RUNS = 15    # in place of five: a round trip differs by a half from process to process, by which processor is emulated where
WRITE_RUNS = 7
FEWEST = 5   # of perftest's: it sometimes can't measure the emulated processor's clock, and says inf: such a run is left out, and told
COUNT = 1000
SIZE = 64
WRITES = 500
WRITE_SIZE = 65536
PROGRAMS = ("cw-rdma-pingpong", "cw-rdma-perf", "cw-echo", "cw-pingpong")
DEPTH = 128  # writes at a time: perftest's own

SCRIPT = """
set -o pipefail # what is left out of a pipe's end would be a run that nobody misses
cw-rdma-pingpong --address 192.0.2.2 --size 4096 2>/dev/null &
server=$!
cw-rdma-perf --address 192.0.2.2 --events 2>/dev/null &
memory=$!
cw-echo --net=verbs-ud --cores pu:0 --device rxe1 --address 10.77.0.2/24 --spin-us 3600000000 >/dev/null 2>&1 &
echo=$!
sleep 2
kill -STOP $server $echo # who spins would spin beside the others
ours() {{
    kill -CONT $server
    bounded 60 cw-rdma-pingpong --connect 192.0.2.2:7472 --from 192.0.2.1 --protocol $1 --size {size} --count {count} --json |
        sed "s/^/ours $1 /" || echo "failed $1 with $?"
    kill -STOP $server
}}
tcp() {{
    kill -CONT $echo
    bounded 60 cw-pingpong --net=verbs-ud --cores pu:1 --device rxe0 --address 10.77.0.1/24 --spin-us 3600000000 --connect 10.77.0.2:7 \\
        --size {size} --count {count} --json | sed "s/^/ours tcp /" || echo "failed tcp with $?"
    kill -STOP $echo
}}
theirs() {{
    ib_send_lat -c $1 -d rxe1 -x 1 -F -s {size} -n {count} >/dev/null 2>&1 &
    sleep 1
    bounded 60 ib_send_lat -c $1 -d rxe0 -x 1 -F -s {size} -n {count} 127.0.0.1 2>/dev/null | sed -n "s/^ *\\({size} .*\\)/theirs $1 \\1/p"
    wait $!
}}
our_writes() {{
    bounded 90 cw-rdma-perf --connect 192.0.2.2:7474 --from 192.0.2.1 --operation write --size {write_size} --depth {depth} \\
        --count {writes} --warmup 0 --json | sed "s/^/ours write /" || echo "failed write with $?"
}}
their_writes() {{
    ib_write_bw -d rxe1 -x 1 -F -s {write_size} -t {depth} -n {writes} >/dev/null 2>&1 &
    sleep 1
    bounded 90 ib_write_bw -d rxe0 -x 1 -F -s {write_size} -t {depth} -n {writes} 127.0.0.1 2>/dev/null |
        sed -n "s/^ *\\({write_size} .*\\)/theirs write \\1/p"
    wait $!
}}
for run in $(seq {runs}); do
    ours rc-send; tcp; theirs RC; ours ud; theirs UD
done
kill -9 $server $echo
for run in $(seq {write_runs}); do
    our_writes; their_writes
done
kill -9 $memory
"""


def sample(source, binaries):
    """{"ours-rc": [p50 in ns], "ours-tcp": [..], "theirs-rc": [..], "ours-ud": .., "theirs-ud": .., "ours-write": [bytes/s],
    "theirs-write": ..}, a value each run."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        script.write(SCRIPT.format(size=SIZE, count=COUNT, runs=RUNS, write_runs=WRITE_RUNS, write_size=WRITE_SIZE, depth=DEPTH, writes=WRITES))
        script.flush()
        programs = [word for name in PROGRAMS for word in ("--add", os.path.join(binaries, name))]
        run = subprocess.run([os.path.join(source, "tests/vm/run"), "--timeout", "540", *programs, script.name],
                             capture_output=True, text=True)
    if run.returncode != 0:
        said = (run.stdout + run.stderr).strip().splitlines()
        raise Unmeasurable(f"the virtual machine: {said[-1] if said else run.returncode}")
    return parse(run.stdout)


def parse(output):
    found = {"ours-rc": [], "ours-tcp": [], "theirs-rc": [], "ours-ud": [], "theirs-ud": [], "ours-write": [], "theirs-write": []}
    for line in output.splitlines():
        if failed := re.match(r"failed (\S+ with \d+)", line):
            raise Unmeasurable(f"a run of ours failed: {failed[1]}")
        try:
            _read_line(line, found)
        except (KeyError, IndexError, ValueError) as e:
            raise Unmeasurable(f"a line of the console is damaged: {line[:120]!r}") from e
    found = {name: [v for v in values if math.isfinite(v) and v > 0] for name, values in found.items()}
    for name, values in found.items():
        least = FEWEST if name.startswith("theirs") else WRITE_RUNS if name == "ours-write" else RUNS
        if len(values) < least:
            raise Unmeasurable(f"too few runs gave a figure: {name} {len(values)} of at least {least}")
    return found


def _read_line(line, found):
    if ours := re.match(r"ours (rc|ud|tcp)\S* (\{.*)", line):
        out = json.loads(ours[2])
        if out["errors"]:
            raise Unmeasurable(f"the {ours[1]} ping-pong counted {out['errors']} errors")
        found[f"ours-{ours[1]}"].append(out["rtt_ns"]["p50"])
    elif ours := re.match(r"ours write (\{.*)", line):
        out = json.loads(ours[1])
        if out["errors"]:
            raise Unmeasurable(f"cw-rdma-perf counted {out['errors']} errors")
        found["ours-write"].append(out["bytes_per_second"])
    elif theirs := re.match(r"theirs write +(.*)", line):
        # size, iterations, peak, average: "MB" of 2^20 bytes a second
        found["theirs-write"].append(float(theirs[1].split()[3]) * 2**20)
    elif theirs := re.match(r"theirs (RC|UD) +(.*)", line):
        # size, iterations, t_min, t_max, t_typical: microseconds, half a round trip
        found[f"theirs-{theirs[1].lower()}"].append(float(theirs[2].split()[4]) * 2000)


def told_of(kind, sample):
    """How many runs a row compares; perftest's that gave no figure are said to be missing. Of ours none is."""
    wanted = WRITE_RUNS if kind == "write" else RUNS
    ours, theirs = len(sample[f"ours-{kind}"]), len(sample[f"theirs-{kind}"])
    text = f"{ours} runs of ours, {theirs} of perftest"
    return f"{text}; left out, as they gave no figure: {wanted - theirs} of perftest's" if theirs < wanted else text
