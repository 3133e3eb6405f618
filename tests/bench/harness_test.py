"""tools/bench without programs: what a row says when its legs succeed, fall short, fail, or need another try."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["COREWIRE_SOURCE_DIR"], "tools"))

from benchmarks import command, counting, environment, network, output, rdma_vm, suites  # noqa: E402
from benchmarks.measure import measure  # noqa: E402
from benchmarks.process import Programs  # noqa: E402
from benchmarks.quiet import Patience  # noqa: E402
from benchmarks.rows import Figure, Leg, Row, Target, Unmeasurable, median  # noqa: E402


def leg_of(name, values, exact=False):
    """A leg whose samples are these values in turn; an exception among them is raised."""
    remaining = list(values)

    def run():
        value = remaining.pop(0)
        if isinstance(value, Exception):
            raise value
        return {"p50": value}
    return Leg(name, run, exact)


def ratio_row(bound=2.0):
    return Row("ours-vs-theirs", "what", "ns", ("ours", "theirs"), (Target("ratio", "<=", bound),),
               lambda s: Figure(median(s["ours"], "p50"), median(s["theirs"], "p50"), "theirs"))


def result_of(row, *legs, rounds=1):
    return measure([row], {leg.name: leg for leg in legs}, rounds)[0]


class VirtualMachine(unittest.TestCase):
    OURS = '{"errors": 0, "rtt_ns": {"p50": 50000}, "bytes_per_second": 1e9}'

    def lines(self):
        lines = []
        for _ in range(rdma_vm.RUNS):
            lines += [f"ours rc-send {self.OURS}", f"ours tcp {self.OURS}", "theirs RC 64 1000 1 2 25.0 3 4 5 6", f"ours ud {self.OURS}",
                      "theirs UD 64 1000 1 2 25.0 3 4 5 6"]
        for _ in range(rdma_vm.WRITE_RUNS):
            lines += [f"ours write {self.OURS}", "theirs write 65536 500 100 90 0"]
        return lines

    def test_none_of_our_runs_may_be_missing(self):
        self.assertEqual(len(rdma_vm.parse("\n".join(self.lines()))["ours-rc"]), rdma_vm.RUNS)
        for kind, name in (("rc-send", "ours-rc 14 of at least 15"), ("tcp", "ours-tcp 14 of at least 15"), ("ud", "ours-ud 14 of at least 15"),
                           ("write", "ours-write 6 of at least 7")):
            with self.subTest(kind), self.assertRaisesRegex(Unmeasurable, name):
                lines = self.lines()
                lines.remove(f"ours {kind} {self.OURS}")
                rdma_vm.parse("\n".join(lines))

    def test_a_run_of_ours_that_failed_and_a_damaged_line_are_told(self):
        with self.assertRaisesRegex(Unmeasurable, "a run of ours failed: rc-send with 124"):
            rdma_vm.parse("\n".join([*self.lines(), "failed rc-send with 124"]))
        for damaged in ('ours tcp {"errors": 0, "rtt', "ours ud {}", "theirs RC 64 10", "theirs write 65536 x y z 0"):
            with self.subTest(damaged), self.assertRaisesRegex(Unmeasurable, "a line of the console is damaged"):
                rdma_vm.parse("\n".join([*self.lines(), damaged]))

    def test_the_vm_is_told_of_a_program_that_fails_in_a_pipe(self):
        self.assertIn("set -o pipefail", rdma_vm.SCRIPT)
        self.assertEqual(rdma_vm.SCRIPT.count('|| echo "failed '), 3)

    def test_runs_of_perftest_without_a_figure_are_left_out_and_told(self):
        lines = self.lines()
        for _ in range(2):
            lines[lines.index("theirs RC 64 1000 1 2 25.0 3 4 5 6")] = "theirs RC 64 1000 1 2 inf 3 4 5 6"
        sample = rdma_vm.parse("\n".join(lines))
        self.assertEqual(sample["theirs-rc"], [50000.0] * 13)
        self.assertEqual(rdma_vm.told_of("rc", sample),
                         "15 runs of ours, 13 of perftest; left out, as they gave no figure: 2 of perftest's")
        self.assertEqual(rdma_vm.told_of("write", sample), "7 runs of ours, 7 of perftest")
        with self.assertRaisesRegex(Unmeasurable, "too few runs"):
            rdma_vm.parse("\n".join(lines).replace("25.0", "inf"))


class Rows(unittest.TestCase):
    def test_the_medians_of_the_rounds_are_compared(self):
        result = result_of(ratio_row(), leg_of("ours", [10, 90, 20]), leg_of("theirs", [10, 1, 10]), rounds=3)
        self.assertEqual((result["value"], result["baseline"], result["ratio"]), (20, 10, 2.0))
        self.assertTrue(result["holds"])

    def test_a_row_has_what_the_documentation_lists(self):
        result = result_of(ratio_row(), leg_of("ours", [1]), leg_of("theirs", [1]))
        self.assertEqual(set(result), {"row", "what", "value", "unit", "baseline", "baseline_what", "ratio", "target",
                                       "holds", "samples"})

    def test_a_row_that_falls_short_gets_three_tries(self):
        ours = leg_of("ours", [30, 30, 15])
        result = result_of(ratio_row(), ours, leg_of("theirs", [10, 10, 10]))
        self.assertTrue(result["holds"])
        result = result_of(ratio_row(), leg_of("ours", [30, 30, 30, 10]), leg_of("theirs", [10, 10, 10, 10]))
        self.assertFalse(result["holds"])
        self.assertEqual(result["ratio"], 3.0)

    def test_a_count_that_repeats_exactly_is_taken_once(self):
        row = Row("count", "what", "", ("count",), (Target("value", "<=", 5),), lambda s: Figure(median(s["count"], "p50")))
        result = result_of(row, leg_of("count", [7], exact=True), rounds=7)
        self.assertEqual(result["value"], 7)
        self.assertFalse(result["holds"])

    def test_what_cannot_be_measured_does_not_hold_and_says_why(self):
        result = result_of(ratio_row(), leg_of("ours", [1, 1]), leg_of("theirs", [1, Unmeasurable("needs root")]), rounds=2)
        self.assertFalse(result["holds"])
        self.assertEqual(result["error"], "needs root")
        self.assertIsNone(result["value"])

    def test_a_leg_that_breaks_is_its_own_rows_error_and_the_others_are_measured(self):
        alone = Row("alone", "what", "ns", ("theirs",), (Target("value", "<=", 5),), lambda s: Figure(median(s["theirs"], "p50")))
        for broken in (KeyError("errors"), ZeroDivisionError("by zero"), OSError(28, "No space left"), ValueError("no number"),
                       subprocess.TimeoutExpired("ip", 20)):
            with self.subTest(broken):
                legs = [leg_of("ours", [broken]), leg_of("theirs", [1])]
                results = measure([ratio_row(), alone], {leg.name: leg for leg in legs}, 1)
                self.assertIn(type(broken).__name__, results[0]["error"])
                self.assertFalse(results[0]["holds"])
                self.assertTrue(results[1]["holds"])

    def test_both_targets_of_a_row_must_hold(self):
        row = Row("both", "what", "ns", ("ours", "theirs"), (Target("value", "<=", 100), Target("ratio", "<=", 2)),
                  lambda s: Figure(median(s["ours"], "p50"), median(s["theirs"], "p50")))
        self.assertEqual(row.target_text(), "<= 100 ns and <= 2x")
        self.assertFalse(row.holds(Figure(101, 100)))
        self.assertFalse(row.holds(Figure(90, 40)))
        self.assertFalse(row.holds(Figure(90)))
        self.assertTrue(row.holds(Figure(90, 50)))

    def test_a_difference_of_two_run_lengths_leaves_start_and_end_out(self):
        self.assertEqual(counting.per_operation(lambda n: 1_000_000 + 17 * n, lambda n: n, 100, 300), 17)


class Servers(unittest.TestCase):
    """Programs that a leg talks to."""
    def serve(self, script, block=lambda process: None):
        with Programs("nowhere", Patience(0)).server(["bash", "-c", script], sorted(os.sched_getaffinity(0))) as process:
            block(process)

    def test_the_block_begins_when_the_server_says_a_line_and_ends_the_server(self):
        seen = []
        self.serve("echo ready; exec sleep 100", seen.append)
        self.assertEqual(seen[0].returncode, -15)

    def test_one_that_does_not_start_tells_why(self):
        with self.assertRaisesRegex(Unmeasurable, "bash did not start: port 7 is taken"):
            self.serve("echo port 7 is taken >&2; exit 2")

    def test_one_that_ended_before_the_block_was_not_measured(self):
        for block in (lambda process: process.wait(), self.wait_and_fail):
            with self.subTest(block), self.assertRaisesRegex(Unmeasurable, "bash ended while it was measured, with 3: something broke"):
                self.serve("echo ready; echo something broke >&2; exit 3", block)

    def test_one_ends_with_the_run_that_is_killed(self):
        script = ("import os, sys; sys.path.insert(0, sys.argv[1]); from benchmarks.process import start\n"
                  "print(start(['sleep', '100']).pid, flush=True); os.kill(os.getpid(), 9)")
        run = subprocess.run([sys.executable, "-B", "-c", script, os.path.join(os.environ["COREWIRE_SOURCE_DIR"], "tools")],
                             capture_output=True, text=True, check=False, timeout=20)
        self.assert_ends(int(run.stdout))

    def assert_ends(self, pid):
        for _ in range(100):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] != "Z":
                    time.sleep(0.1)
                    continue
            return
        self.fail(f"process {pid} goes on")

    def test_what_a_killed_run_has_left_in_its_namespace_ends_with_it(self):
        dead = subprocess.Popen(["true"])
        dead.wait()
        name = f"cwb-{dead.pid}-a"
        if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode != 0:
            self.skipTest("namespaces need root")
        left = subprocess.Popen(["ip", "netns", "exec", name, "sh", "-c", "echo here; exec sleep 100"], stdout=subprocess.PIPE)
        left.stdout.readline()
        network.remove_leftovers()
        self.assertEqual(left.wait(timeout=20), -9)
        left.stdout.close()
        self.assertFalse(os.path.exists(f"/run/netns/{name}"))

    @staticmethod
    def wait_and_fail(process):
        process.wait()
        raise FileNotFoundError("/proc/1234")


class Suites(unittest.TestCase):
    def test_no_two_rows_have_one_name(self):
        with contextlib.ExitStack() as cleanup:
            names = [row.name for suite in suites.SUITES.values() for row in suite(None, 1, cleanup)[0]]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_every_leg_that_a_row_names_exists_and_every_leg_is_used(self):
        with contextlib.ExitStack() as cleanup:
            for name, suite in suites.SUITES.items():
                rows, legs = suite(None, 1, cleanup)
                with self.subTest(name):
                    self.assertEqual({leg for row in rows for leg in row.legs}, set(legs))
                    self.assertEqual(len({row.name for row in rows}), len(rows))


class Output(unittest.TestCase):
    REPORT = {"environment": {"cpu": "one", "cores": 2}, "rows": [
        {"row": "a", "what": "something", "value": 2412, "unit": "ns", "baseline": 1911, "baseline_what": "raw frames",
         "ratio": 1.262, "target": "<= 1.35x", "holds": True, "samples": [2412]},
        {"row": "b", "what": "something else", "value": None, "unit": "ns", "baseline": None, "baseline_what": None,
         "ratio": None, "target": "<= 1x", "holds": False, "samples": [], "error": "needs root"},
        {"row": "c", "what": "a third", "value": 5, "unit": "ns", "baseline": None, "baseline_what": None,
         "ratio": None, "target": "<= 1 ns", "holds": False, "samples": [5]}]}

    def test_the_table_says_what_holds_what_falls_short_and_what_cannot_be_measured(self):
        lines = output.table(self.REPORT).splitlines()
        a, b, c = (next(line for line in lines if line.startswith(name + " ")) for name in "abc")
        self.assertIn("2'412 ns", a)
        self.assertIn("1.26x", a)
        self.assertTrue(a.endswith("holds"))
        self.assertTrue(b.endswith("cannot be measured"))
        self.assertTrue(c.endswith("falls short"))
        self.assertIn("b: needs root", lines)

    def test_markdown_has_a_line_a_row(self):
        self.assertEqual(sum(line.startswith("| ") for line in output.markdown(self.REPORT).splitlines()), 5)


class Command(unittest.TestCase):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = command.main(list(arguments))
            except SystemExit as e:
                status = e.code
        return status, out.getvalue(), err.getvalue()

    def test_a_wrong_option_is_exit_status_2(self):
        for arguments in (["nonsense"], ["rtt", "--rounds", "0"], ["rtt", "--only", "nothing"], ["rtt", "--frobnicate"]):
            with self.subTest(arguments):
                status, out, err = self.run_main(*arguments)
                self.assertEqual(status, 2)
                self.assertEqual(out, "")
                self.assertIn("error:", err)

    def measure_with(self, row, programs):
        """The one row of a run in which these programs print these texts."""
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "bin"))
            for name, text in programs.items():
                path = os.path.join(build, "bin", name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
                os.chmod(path, 0o755)
            _, out, _ = self.run_main("rtt", "--json", "--rounds", "1", "--patience", "0", "--build", build, "--only", row)
        return json.loads(out)["rows"][0]

    def test_a_run_in_which_nothing_was_measured_holds_no_target(self):
        nothing = '{"errors": 0, "round_trips": 0, "rate": 0, "rtt_ns": {"p50": 0, "p99": 0}}'
        cacheline = '{"round_trips": 1000, "rtt_ns": {"p50": 100}}'
        rows = [("tcp-64B-same-core", "cw-pingpong")]
        if len(os.sched_getaffinity(0)) > 1:
            rows += [("tcp-64B-wire", "cw-pingpong"), ("submit-busy", "cw-bench-submit")]
        for row, ours in rows:
            with self.subTest(row):
                result = self.measure_with(row, {ours: nothing, "cw-bench-cacheline": cacheline})
                self.assertFalse(result["holds"])
                self.assertEqual(result["error"], "nothing arrived")
        something = '{"errors": 0, "round_trips": 500, "rate": 500, "rtt_ns": {"p50": 500, "p99": 500}}'
        result = self.measure_with("tcp-64B-same-core", {"cw-pingpong": something})
        self.assertTrue(result["holds"], result)

    def test_a_program_that_prints_something_else_is_that_row_s_error(self):
        result = self.measure_with("tcp-64B-same-core", {"cw-pingpong": "{}"})
        self.assertEqual(result["error"], "KeyError: 'errors'")

    def test_without_programs_every_row_is_there_with_an_error(self):
        with tempfile.TemporaryDirectory() as empty:
            status, out, _ = self.run_main("rtt", "--json", "--rounds", "1", "--patience", "0", "--build", empty,
                                           "--only", "tcp-64B-wire", "--only", "tcp-64B-instructions")
        self.assertEqual(status, 1)
        report = json.loads(out)
        self.assertEqual(set(report["environment"]), {"cpu", "cores", "kernel", "compiler", "commit", "date"})
        self.assertEqual([r["row"] for r in report["rows"]], ["tcp-64B-wire", "tcp-64B-instructions"])
        for row in report["rows"]:
            self.assertFalse(row["holds"])
            self.assertIn("is missing", row["error"])


class LastReports(unittest.TestCase):
    """What `report` says of runs that were kept."""
    run_main = Command.run_main
    ROW = Output.REPORT["rows"][0]

    def report(self, *arguments, **kept):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "bench"))
            for suite, what in kept.items():
                with open(os.path.join(build, "bench", f"{suite}.json"), "w", encoding="utf-8") as file:
                    json.dump({"environment": {"cpu": "one"}, "rows": [self.ROW], **what}, file)
            return self.run_main("report", "--build", build, *arguments)

    def test_a_machine_that_was_not_quiet_is_told(self):
        _, out, _ = self.report(rtt={"quiet": False, "disturbed_samples": 3}, tcp={"quiet": True, "disturbed_samples": 0})
        self.assertEqual(out.count("The machine was not quiet (3 disturbed samples)"), 1)

    def test_json_is_one_object_by_suite(self):
        status, out, _ = self.report("--json", rtt={}, tcp={"quiet": True})
        self.assertEqual((status, list(json.loads(out))), (0, ["rtt", "tcp"]))

    def test_the_exit_status_is_that_of_the_rows(self):
        self.assertEqual(self.report(rtt={}, tcp={"rows": [{**self.ROW, "holds": False}]})[0], 1)
        self.assertEqual(self.report()[0], 1)

    def test_what_was_measured_is_kept_with_how_quiet_it_was(self):
        with tempfile.TemporaryDirectory() as build:
            self.run_main("rdma", "--rounds", "1", "--patience", "0", "--build", build)
            with open(os.path.join(build, "bench", "rdma.json"), encoding="utf-8") as file:
                self.assertIn("quiet", json.load(file))

    def test_programs_older_than_the_sources_are_told(self):
        with tempfile.TemporaryDirectory() as build:
            program = os.path.join(build, "bin", "cw-pingpong")
            os.mkdir(os.path.dirname(program))
            with open(program, "w", encoding="utf-8"):
                pass
            describe = lambda: environment.describe(os.environ["COREWIRE_SOURCE_DIR"], build)["commit"]
            now = time.time() + 10
            os.utime(program, (now, now))
            self.assertFalse(describe().endswith("+stale"))
            os.utime(program, (1, 1))
            if describe().partition("+")[0] != "unknown":  # in a checkout
                self.assertTrue(describe().endswith("+stale"))


if __name__ == "__main__":
    unittest.main()
