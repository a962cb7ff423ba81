"""scripts/build, scripts/test and .ci/run in a copy of the tree's scripts, with stand-ins for meson, ninja and the
demo: what they do with a failure, and whether the last line tells the truth."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[3]
# `meson setup DIR` makes a build directory; `meson test -C DIR --logbase NAME` writes the log that $STATE/<NAME> holds.
MESON = """#!{python}
import os, pathlib, shutil, sys
state = pathlib.Path(os.environ["STATE"])
with (state / "calls").open("a") as calls:
    calls.write("meson " + " ".join(sys.argv[1:]) + " CXX=" + os.environ.get("CXX", "") + "\\n")
if sys.argv[1] == "setup":
    (pathlib.Path(sys.argv[2]) / "meson-private").mkdir(parents=True)
    (pathlib.Path(sys.argv[2]) / "meson-logs").mkdir()
    (pathlib.Path(sys.argv[2]) / "build.ninja").touch()
    if (state / "tests").exists():
        (pathlib.Path(sys.argv[2]) / "meson-info").mkdir()
        shutil.copy(state / "tests", pathlib.Path(sys.argv[2]) / "meson-info/intro-tests.json")
else:
    directory = pathlib.Path(sys.argv[sys.argv.index("-C") + 1])
    log = state / sys.argv[sys.argv.index("--logbase") + 1]
    if log.exists():
        shutil.copy(log, directory / "meson-logs" / (log.name + ".json"))
"""
NINJA = '#!/bin/bash\necho "ninja $*" >>"$STATE/calls"\n[ ! -e "$STATE/broken" ] || { echo "x.cpp:1: error: no"; exit 1; }\n'
DEMO = '#!/bin/bash\nset -u\necho "the demo says hello"\nexit "${DEMO_STATUS:-0}"\n'


class Commands(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = pathlib.Path(scratch.name)
        self.tree = self.state / "tree"
        (self.state / "bin").mkdir()
        for name in ("scripts", ".ci"):
            shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("checks", "__pycache__"))
        self.program("bin/meson", MESON.format(python=sys.executable))
        self.program("bin/ninja", NINJA)
        self.program("tree/scripts/demo", DEMO)
        self.program("tree/scripts/install-packages", "#!/bin/bash\n")

    def program(self, name, text):
        path = self.state / name
        path.write_text(text)
        path.chmod(0o755)

    def log(self, stage, *results):
        entries = [{"name": f"t{i}", "result": result, "returncode": 0} for i, result in enumerate(results)]
        (self.state / f"testlog-{stage}").write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    def run_script(self, *command, cwd="/", **more):
        environment = {**os.environ, "PATH": f"{self.state / 'bin'}:{os.environ['PATH']}", "STATE": str(self.state)}
        return subprocess.run(
            [str(self.tree / command[0]), *command[1:]], env={**environment, **more}, cwd=cwd,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def calls(self, start):
        lines = (self.state / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(start)]

    def last_line(self, done):
        return done.stdout.splitlines()[-1]

    def test_build_configures_once_and_again_when_options_change(self):
        for options in ([], [], ["--compiler", "clang"], ["--compiler", "clang", "--sanitize", "asan"]):
            done = self.run_script("scripts/build", *options)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        setups = self.calls("meson setup build ")
        self.assertEqual(len(setups), 3)
        self.assertTrue(setups[1].endswith("CXX=clang++"))
        self.assertIn("-Db_sanitize=address,undefined", setups[2])
        self.assertEqual(len(self.calls("ninja")), 4)

    def test_build_shows_the_error_of_a_failure(self):
        (self.state / "broken").touch()
        done = self.run_script("scripts/build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("x.cpp:1: error: no", done.stderr)

    def test_build_deletes_only_what_meson_made(self):
        mine = self.tree / "mine"
        mine.mkdir()
        (mine / "thesis.txt").touch()
        done = self.run_script("scripts/build", "--dir", "mine")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not a build directory", done.stderr)
        self.assertTrue((mine / "thesis.txt").exists())

    def test_build_refuses_what_it_does_not_know(self):
        for options in (["--compiler", "icc"], ["--sanitize", "msan"], ["--fast"], ["--dir"]):
            self.assertEqual(self.run_script("scripts/build", *options).returncode, 1, options)

    def test_the_last_line_of_a_good_run(self):
        self.log("release", "OK", "OK", "SKIP")
        self.log("asan", "OK")
        done = self.run_script("scripts/test", "--only", "release", "--only", "asan")
        self.assertEqual((done.returncode, self.last_line(done)), (0, "3 passed, 0 failed, 1 skipped"))

    def test_a_failed_test_fails_the_run(self):
        self.log("release", "OK", "TIMEOUT")
        done = self.run_script("scripts/test", "--only", "release")
        self.assertEqual((done.returncode, self.last_line(done)), (1, "1 passed, 1 failed"))

    def test_a_failed_build_fails_the_run(self):
        (self.state / "broken").touch()
        self.log("release", "OK")
        done = self.run_script("scripts/test", "--only", "release")
        self.assertEqual((done.returncode, self.last_line(done)), (1, "0 passed, 1 failed"))

    def test_a_stage_that_ran_nothing_fails_the_run(self):
        self.log("release", "OK")
        done = self.run_script("scripts/test", "--only", "release", "--only", "tsan")
        self.assertEqual((done.returncode, self.last_line(done)), (1, "1 passed, 1 failed"))

    def test_a_log_of_an_earlier_run_is_not_counted_again(self):
        self.log("release", "OK")
        self.assertEqual(self.run_script("scripts/test", "--only", "release").returncode, 0)
        (self.state / "testlog-release").unlink()
        self.assertEqual(self.run_script("scripts/test", "--only", "release").returncode, 1)

    def test_mutations_run_with_long_and_count(self):
        for stage in ("release", "clang", "asan", "tsan"):
            self.log(stage, "OK")
        (self.tree / "scripts/checks").mkdir()
        (self.tree / "scripts/checks/run.py").write_text("import sys\nopen(sys.argv[2], 'a').write('5 0 0 checks\\n')\n")
        self.program("tree/scripts/mutations", "#!/bin/bash\necho 30 2 0 mutations >>$2; exit 1\n")
        self.assertEqual(self.last_line(self.run_script("scripts/test")), "8 passed, 0 failed")
        self.assertEqual(self.last_line(self.run_script("scripts/test", "--long")), "39 passed, 2 failed")
        self.program("tree/scripts/mutations", "#!/bin/bash\nexit 1\n")
        done = self.run_script("scripts/test", "--only", "mutations")
        self.assertEqual((done.returncode, self.last_line(done)), (1, "0 passed, 1 failed"))

    def test_a_share_runs_some_programs_of_the_sanitizer_stages_and_builds_only_those(self):
        self.log("asan", "OK")
        self.log("tsan", "OK")
        tests = [{"name": name, "suite": [f"v:{suite}" for suite in suites]} for name, suites in
                 {"a": ["unit", "tsan"], "b": ["unit", "tsan"], "c": ["fault"], "d": ["scripts"]}.items()]
        (self.state / "tests").write_text(json.dumps(tests))
        done = self.run_script("scripts/test", "--share", "2/2", "--only", "asan", "--only", "tsan")
        self.assertEqual((done.returncode, self.last_line(done)), (0, "2 passed, 0 failed"), done.stderr)
        asan, tsan = self.calls("meson test")
        self.assertIn("--no-suite scripts --no-suite variant b CXX=", asan)
        self.assertIn("--suite tsan --no-suite variant b CXX=", tsan)
        self.assertNotIn("--no-rebuild", asan)
        self.assertEqual(self.calls("ninja"), [])
        for share in ("0/5", "6/5", "x", ""):
            self.assertEqual(self.run_script("scripts/test", "--share", share).returncode, 2, share)

    def test_suites_run_in_the_release_build_alone(self):
        self.log("release", "OK")
        self.assertEqual(self.run_script("scripts/test", "unit", "fault").returncode, 0)
        (call,) = self.calls("meson test")
        self.assertIn("--suite unit --suite fault", call)

    def test_ci_adds_the_demo_to_the_sum(self):
        checks = self.tree / "scripts/checks"
        checks.mkdir()
        (checks / "run.py").write_text("import sys\nopen(sys.argv[2], 'a').write('5 0 0 checks\\n')\n")
        for stage in ("release", "clang", "asan", "tsan"):
            self.log(stage, "OK")
        done = self.run_script(".ci/run")
        self.assertEqual((done.returncode, self.last_line(done)), (0, "8 passed, 0 failed"), done.stderr)
        done = self.run_script(".ci/run", DEMO_STATUS="3")
        self.assertEqual((done.returncode, self.last_line(done)), (1, "7 passed, 1 failed"))
        self.log("asan", "FAIL")
        done = self.run_script(".ci/run")
        self.assertEqual((done.returncode, self.last_line(done)), (1, "7 passed, 1 failed"))
        self.assertIn("the demo says hello", done.stdout)

    def test_thirty_commits_run_all_of_both_sanitizers_in_ci(self):
        self.program("bin/git", '#!/bin/bash\necho "$COMMIT"\n')
        self.program("tree/scripts/test", '#!/bin/bash\necho "$*" >>"$STATE/calls"\necho 1 passed, 0 failed\n')
        for number in range(30):
            self.assertEqual(self.run_script(".ci/run", COMMIT=f"{number:07x}89abcdef").returncode, 0)
        common = "--only release --only checks --only "
        parts = {tuple(call.removeprefix(common).split()[:3]) for call in self.calls(common)}
        self.assertEqual(parts, {("asan", "--share", f"{i}/18") for i in range(1, 19)} |
                         {("tsan", "--share", f"{i}/12") for i in range(1, 13)})


if __name__ == "__main__":
    unittest.main()
