"""tools/fuzz, tools/against-linux, tools/proved, tools/install_packages, and a test: a tool that has done nothing has not succeeded."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

TOOLS = pathlib.Path(os.environ["COREWIRE_SOURCE_DIR"]) / "tools"


def module_of(path):
    loader = importlib.machinery.SourceFileLoader(path.parent.name + "_" + path.stem.strip("_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Fuzz(unittest.TestCase):
    """With a fuzzer that is a shell script."""
    def fuzz(self, script, *arguments):
        fuzz = module_of(TOOLS / "fuzz")
        fuzz.require_clang = lambda by_test: None
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            fuzz.BUILD = pathlib.Path(folder)
            program = fuzz.BUILD / "bin" / "fuzzer"
            program.parent.mkdir()
            program.write_text(f"#!/bin/bash\nname=${{0##*/}}\n{script}\n")
            program.chmod(0o755)
            sys.argv = ["fuzz", "--built", "--jobs", "1", *arguments]
            try:
                status = fuzz.main()
            except SystemExit as e:
                status = e.code
        return status, out.getvalue()

    NAMES = "if [[ $name == fuzzer ]]; then echo one; echo two; exit; fi; "

    def test_one_that_does_not_start_has_fuzzed_nothing(self):
        for script in ("exit 127", "exit 0", "echo one; exit 1"):
            for arguments in ([], ["--list"]):
                with self.subTest(script=script, arguments=arguments):
                    self.assertIn("names no targets", self.fuzz(script, *arguments)[0])

    def test_a_target_without_executions_has_failed(self):
        status, out = self.fuzz(self.NAMES + "[[ $name == one ]] || echo number_of_executed_units: 5 >&2")
        self.assertEqual(status, 1)
        self.assertRegex(out, r"one +\? executions +\? edges  FAILED")
        self.assertRegex(out, r"two +5 executions +\? edges  ok")

    def test_targets_that_were_played_succeed(self):
        status, _ = self.fuzz(self.NAMES + "echo number_of_executed_units: 5 >&2")
        self.assertEqual(status, 0)
        self.assertEqual(self.fuzz(self.NAMES, "--list"), (0, "one\ntwo\n"))


class AgainstLinux(unittest.TestCase):
    """With traces that nobody has played."""
    PACKET = {"kind": "packet", "time": 0.0, "text": "S 0:0(0)"}
    OTHER = {"kind": "packet", "time": 0.0, "text": "F 0:0(0)"}

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(TOOLS / "against-linux"))
        cls.module = module_of(TOOLS / "against-linux" / "__main__.py")

    @classmethod
    def tearDownClass(cls):
        sys.path.remove(str(TOOLS / "against-linux"))

    def compare(self, ours, known=(), again=2):
        """The outcome, what was printed, and how often the library played. `ours`: its traces in turn."""
        module, remaining = self.module, list(ours)
        options = types.SimpleNamespace(mode="ipv4", again=again, keep=None, details=False, traces=False, segments=None)
        script = types.SimpleNamespace(known=list(known), mode="ipv4")
        rules = module.Rules()
        module.play = lambda side, *_: [self.PACKET] if side == "linux" else remaining.pop(0)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            found = module.compare(pathlib.Path("x.in"), script, options, rules)
            outcome = module.report(pathlib.Path("x.in"), script, found, options, rules)
        return outcome, out.getvalue(), len(ours) - len(remaining)

    def test_a_crash_is_no_known_difference_and_is_played_again(self):
        crash = self.module.failure("failed with -11: ")
        outcome, out, played = self.compare([crash] * 3, known=[17])
        self.assertEqual((outcome, played), ("FAILED", 3))
        self.assertIn("ours: failed with -11", out)
        self.assertEqual(self.compare([crash, [self.OTHER]], known=[17])[0::2], ("known", 2))
        self.assertEqual(self.compare([crash, [self.OTHER], [self.OTHER]])[0], "DIFFERS")
        self.assertEqual(self.compare([crash, [self.PACKET]])[0::2], ("same", 2))

    def test_differences_are_known_or_not(self):
        self.assertEqual(self.compare([[self.OTHER]], known=[17])[0::2], ("known", 1))
        self.assertEqual(self.compare([[self.OTHER]] * 3)[0::2], ("DIFFERS", 3))

    def test_a_known_difference_that_has_gone_is_told(self):
        outcome, out, played = self.compare([[self.PACKET]] * 3, known=[17])
        self.assertEqual((outcome, played), ("GONE", 3))
        self.assertIn("said to show (17)", out)
        self.assertEqual(self.compare([[self.PACKET], [self.OTHER]], known=[17])[0::2], ("known", 2))
        crash = self.module.failure("failed with -11: ")
        self.assertEqual(self.compare([[self.PACKET], crash, [self.PACKET]], known=[17])[0], "GONE")

    def test_an_inventor_that_fails_is_a_finding_and_what_is_the_same_leaves_nothing(self):
        module, out = self.module, io.StringIO()
        ends = {"1": (-11, ""), "2": (0, "+0 differs\n"), "3": (0, "+0 same\n")}
        run = lambda command, **_: subprocess.CompletedProcess(command, *ends[command[-1]], "lost")
        module.subprocess = types.SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
        module.read = lambda path: types.SimpleNamespace(mode="ipv4", text=path.read_text())
        module.play = lambda side, path, *_: [self.OTHER if side == "linux" and "differs" in path.read_text() else self.PACKET]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            options = types.SimpleNamespace(invent="1:4", into=pathlib.Path(folder) / "into", jobs=2, again=0, mode=None,
                                            library=pathlib.Path("library"))
            self.assertEqual(module.invent_all(options, module.Rules()), 1)
            self.assertEqual([each.name for each in options.into.iterdir()], ["invented2.in"])
        self.assertRegex(out.getvalue(), r"DIFFERS\n  invented1\n  failed with -11 while it was invented: lost")
        self.assertIn("3 invented scripts: 2 differ", out.getvalue())

    def test_a_kept_trace_is_of_its_script_and_kernel(self):
        with tempfile.TemporaryDirectory() as folder:
            options = types.SimpleNamespace(keep=pathlib.Path(folder), segments=None, release=os.uname().release)
            scripts = [pathlib.Path(folder) / name for name in ("a/x.in", "b/x.in")]
            for script in scripts:
                script.parent.mkdir()
                script.write_text(str(script))
            names = {self.module.kept_as(script, "ipv4", options) for script in scripts}
            self.assertEqual(len(names), 2)
            self.assertTrue(all(os.uname().release in name.name for name in names))


class Proved(unittest.TestCase):
    """With reports of twelve tests that took 0 to 11 s, and with a QEMU that is none."""
    RAN = [f'<testcase name="net/t{n}" time="{n}.0" status="run"><system-out>SKIPPED: no more\n</system-out></testcase>' for n in range(12)]
    SKIPPED = '<testcase name="{}" time="0.5" status="notrun"><skipped message="77"/><system-out>{}</system-out></testcase>'

    def proved(self, *cases, qemu=False, **environment):
        with tempfile.TemporaryDirectory() as folder:
            report, program = pathlib.Path(folder) / "report.xml", pathlib.Path(folder) / "qemu-system-x86_64"
            report.write_text("<testsuite>" + "".join(cases) + "</testsuite>")
            if qemu:
                program.write_text("#!/bin/sh\n")
                program.chmod(0o755)
            done = subprocess.run([sys.executable, TOOLS / "proved", report], capture_output=True, text=True, check=False,
                                  env={"PATH": folder, "COREWIRE_MACHINE": "x86_64", **environment})
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_the_ten_dearest_are_told_and_no_others(self):
        status, out = self.proved(*self.RAN, COREWIRE_REQUIRE_ALL="1", COREWIRE_REQUIRE_VM="1")
        self.assertEqual(status, 0)
        self.assertIn("the dearest of 12 tests, which took 66 s together", out)
        self.assertEqual([line.split()[2] for line in out.splitlines() if line.startswith(" ")], [f"net/t{n}" for n in range(11, 1, -1)])
        self.assertNotIn("NOT PROVED", out)

    def test_each_skipped_test_is_told_with_its_reasons(self):
        odd = self.SKIPPED.format("net/odd", "noise\nSKIPPED: no &lt;x&gt; here\nSKIPPED: no y\nSKIPPED: no y\n")
        left = '<testcase name="net/left" time="0" status="disabled"><system-out>Disabled</system-out></testcase>'
        status, out = self.proved(*self.RAN, odd, left)
        self.assertEqual(status, 0)
        self.assertIn("NOT PROVED: 2 were skipped\n  net/left: it does not say why\n  net/odd: no <x> here; no y\n", out)
        self.assertEqual(self.proved(*self.RAN, odd, qemu=True, COREWIRE_REQUIRE_VM="1")[0], 0)
        self.assertEqual(self.proved(*self.RAN, odd, COREWIRE_REQUIRE_ALL="1")[0], 1)

    def test_a_virtual_machine_that_could_run_may_not_be_skipped(self):
        machine = self.SKIPPED.format("asan/vm/suites", "SKIPPED: no kernel")
        self.assertEqual(self.proved(*self.RAN, machine, qemu=True)[0], 1)
        self.assertEqual(self.proved(*self.RAN, machine, qemu=True, COREWIRE_MACHINE="aarch64")[0], 0)
        status, out = self.proved(*self.RAN, machine)
        self.assertEqual(status, 0)
        self.assertIn("asan/vm/suites: no kernel", out)  # in words all the same
        self.assertEqual(self.proved(*self.RAN, machine, COREWIRE_REQUIRE_VM="1")[0], 1)

    def test_a_report_of_nothing_proves_nothing(self):
        self.assertEqual(self.proved()[0], 1)


class TwoProcesses(unittest.TestCase):
    """tests/sim/two_processes.sh, with a simulator that is a shell script."""
    def compare(self, script):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bin" / "test_sim"
            program.parent.mkdir()
            program.write_text(f"#!/bin/bash\n{script}\n")
            program.chmod(0o755)
            return subprocess.run([TOOLS.parent / "tests/sim/two_processes.sh"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "COREWIRE_BINARY_DIR": folder})

    def test_what_a_program_said_that_failed_is_told(self):
        for script in ("echo out; echo err >&2; exit 3", "echo out; echo err >&2"):
            done = self.compare(script)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "out\nerr\n(failed with 3|no digest): env\n")
        self.assertRegex(self.compare("kill -SEGV $$").stderr, "failed with 139: env")

    def test_two_digests_are_compared(self):
        done = self.compare("echo digest 00112233445566${MALLOC_PERTURB_:-77}")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "two processes: digest 0011223344556677, digest 0011223344556685\n")
        self.assertEqual(self.compare("echo digest 0011223344556677").returncode, 0)


class InstallPackages(unittest.TestCase):
    def test_a_kind_that_there_is_not_and_no_kind_are_told(self):
        for kinds in ([], ["tests"], ["build", "b.*"]):
            with self.subTest(kinds):
                done = subprocess.run([TOOLS / "install_packages", *kinds], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("build fuzz test", done.stderr)


if __name__ == "__main__":
    unittest.main()
