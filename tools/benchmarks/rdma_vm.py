"""Round trips over a real RDMA driver: cw-rdma-pingpong and perftest's ib_send_lat in turn, in one run of the virtual machine of
tests/vm. Emulated time says nothing by itself; ratios within one run do."""
import json
import os
import re
import subprocess
import tempfile

from .rows import Unmeasurable

RUNS = 5
COUNT = 1000
SIZE = 64

SCRIPT = """
cw-rdma-pingpong --address 192.0.2.2 --size 4096 2>/dev/null &
server=$!
sleep 1
ours() {{
    kill -CONT $server
    cw-rdma-pingpong --connect 192.0.2.2:7472 --from 192.0.2.1 --protocol $1 --size {size} --count {count} --json | sed "s/^/ours $1 /"
    kill -STOP $server   # or it would spin beside the other
}}
theirs() {{
    ib_send_lat -c $1 -d rxe1 -x 1 -F -s {size} -n {count} >/dev/null 2>&1 &
    sleep 1
    ib_send_lat -c $1 -d rxe0 -x 1 -F -s {size} -n {count} 127.0.0.1 2>/dev/null | sed -n "s/^ *\\({size} .*\\)/theirs $1 \\1/p"
    wait $!
}}
for run in $(seq {runs}); do
    ours rc-send; theirs RC; ours ud; theirs UD
done
kill -9 $server
"""


def sample(source, binaries):
    """{"ours-rc": [p50 in ns], "theirs-rc": [..], "ours-ud": .., "theirs-ud": ..}, a value each run."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        script.write(SCRIPT.format(size=SIZE, count=COUNT, runs=RUNS))
        script.flush()
        run = subprocess.run([os.path.join(source, "tests/vm/run"), "--timeout", "540", "--add",
                              os.path.join(binaries, "cw-rdma-pingpong"), script.name], capture_output=True, text=True)
    if run.returncode != 0:
        said = (run.stdout + run.stderr).strip().splitlines()
        raise Unmeasurable(f"the virtual machine: {said[-1] if said else run.returncode}")
    return parse(run.stdout)


def parse(output):
    found = {"ours-rc": [], "theirs-rc": [], "ours-ud": [], "theirs-ud": []}
    for line in output.splitlines():
        if ours := re.match(r"ours (rc|ud)\S* (\{.*)", line):
            out = json.loads(ours[2])
            if out["errors"]:
                raise Unmeasurable(f"cw-rdma-pingpong counted {out['errors']} errors")
            found[f"ours-{ours[1]}"].append(out["rtt_ns"]["p50"])
        elif theirs := re.match(r"theirs (RC|UD) +(.*)", line):
            # size, iterations, t_min, t_max, t_typical: microseconds, half a round trip
            found[f"theirs-{theirs[1].lower()}"].append(float(theirs[2].split()[4]) * 2000)
    if any(len(values) != RUNS for values in found.values()):
        raise Unmeasurable(f"not every run gave a figure: { {k: len(v) for k, v in found.items()} }")
    return found
