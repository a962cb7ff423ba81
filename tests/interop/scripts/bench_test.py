"""scripts/lib/bench_main.py, with stand-ins for the benchmark programs and for valgrind."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

MAIN = pathlib.Path(__file__).parents[3] / "scripts" / "lib" / "bench_main.py"
# A Google Benchmark program: BENCHMARKS maps names to counters, one list of values a counter, used pass by pass.
PROGRAM = """#!{python}
import json, pathlib, re, sys
state = pathlib.Path({state!r})
benchmarks = json.loads({benchmarks!r})
options = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:])
if options.get("benchmark_list_tests") == "true":
    print("\\n".join(benchmarks))
    sys.exit(0)
print("a line of noise on standard output")
matching = [name for name in benchmarks if re.search(options["benchmark_filter"], name)]
with (state / "order").open("a") as order:
    order.write(" ".join(matching) + "\\n")
name = matching[0]
pass_number = (state / "order").read_text().split().count(name) - 1
counters = benchmarks[name]
if counters == "die":
    sys.exit("out of luck")
run = {{"name": name, "run_type": "iteration"}}
if counters == "error":
    run.update(error_occurred=True, error_message="no peer")
else:
    run.update({{metric: values[pass_number % len(values)] for metric, values in counters.items()}})
pathlib.Path(options["benchmark_out"]).write_text(json.dumps({{"benchmarks": [run]}}))
"""
INSTRUCTIONS = """#!/bin/sh
[ "$1" = --list ] && [ -n "{listing}" ] || exit 1
printf '{listing}'
"""
VALGRIND = """#!{python}
import pathlib, sys
out = next(a for a in sys.argv if a.startswith("--callgrind-out-file=")).split("=", 1)[1]
case, subject, operations = sys.argv[-3:]
cost = {{"floor": 40, "verbatim.prepared": 60}}[subject]
pathlib.Path(out).write_text("events: Ir\\n1 2\\nsummary: %d\\n" % (123456 + cost * int(operations)))
"""
RING = {
    "ring/message_8/verbatim.inline/real_time": {"us_one_way": [0.4, 0.8, 0.5, 0.5, 0.5]},
    "ring/message_8/unix": {"us_one_way": [2.0, 2.0, 1.0, 2.0, 2.0]},
    "ring/message_8/floor": {"us_one_way": [0.2, 0.2, 0.25, 0.2, 0.2]},
    "ring/rate_2^3/floor": {"msgs_per_s": [100.0, 200.0]},
    "ring/rate_2^3/verbatim.inline": {"msgs_per_s": [50.0, 50.0]},
}


class Bench(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = pathlib.Path(scratch.name)
        (self.state / "bin").mkdir()
        self.program(self.state / "bin" / "valgrind", VALGRIND.format(python=sys.executable))

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def group(self, name, benchmarks):
        text = PROGRAM.format(python=sys.executable, state=str(self.state), benchmarks=json.dumps(benchmarks))
        self.program(self.state / "bench" / name / f"bench_{name}", text)

    def bench(self, *arguments):
        path = f"{self.state / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [sys.executable, str(MAIN), "--build", str(self.state), *arguments], env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    def rows(self, *arguments):
        out = self.state / "rows.json"
        done = self.bench("--json", str(out), *arguments)
        rows = json.loads(out.read_text())
        return done, {(row["case"], row["subject"], row["metric"]): row for row in rows}, rows

    def order(self):
        return (self.state / "order").read_text().splitlines()

    def test_subjects_of_a_case_alternate_and_each_run_is_one_benchmark(self):
        self.group("ring", RING)
        self.assertEqual(self.bench("--quick").returncode, 0)
        self.assertEqual(self.order(), list(RING) * 2)

    def test_runs_five_passes_without_quick(self):
        self.group("ring", RING)
        done, rows, _ = self.rows("ring")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.order(), list(RING) * 5)
        self.assertEqual({row["passes"] for row in rows.values()}, {5})

    def test_json_rows_have_exactly_the_agreed_keys(self):
        self.group("ring", RING)
        _, _, rows = self.rows()
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertEqual(list(row), ["group", "case", "subject", "metric", "best", "median", "passes"])

    def test_best_is_the_least_cost_and_the_highest_rate(self):
        self.group("ring", RING)
        _, rows, _ = self.rows()
        cost = rows[("message_8", "verbatim.inline", "us_one_way")]
        self.assertEqual((cost["best"], cost["median"]), (0.4, 0.5))
        rate = rows[("rate_2^3", "floor", "msgs_per_s")]
        self.assertEqual((rate["best"], rate["median"]), (200.0, 100.0))

    def test_ratios_are_taken_within_a_pass(self):
        self.group("ring", RING)
        lines = self.bench().stdout.splitlines()
        # Per pass 2.0 4.0 2.0 2.5 2.5 times the floor; the medians alone would give 0.5 / 0.2.
        self.assertTrue(any("verbatim.inline" in line and line.split()[-2:] == ["2.00", "2.50"] for line in lines))
        # A rate below the floor's is slower too: 2.0 4.0 2.0 4.0 2.0.
        self.assertTrue(any("msgs_per_s" in line and line.split()[-2:] == ["2.00", "2.00"] for line in lines))
        # Beside the peer: 5.0 2.5 2.0 4.0 4.0 times faster.
        self.assertTrue(any("unix" in line and line.split()[-2:] == ["5.00", "4.00"] for line in lines))

    def test_counts_instructions_as_the_difference_of_two_runs(self):
        self.group("post", {"post/write_inline_8/verbatim.prepared": {"ns": [5]}, "post/write_inline_8/floor": {"ns": [4]}})
        for listing in ("write_inline_8 verbatim.prepared\\nwrite_inline_8 floor\\n", ""):
            self.program(self.state / "bench/post/bench_post_instructions", INSTRUCTIONS.format(listing=listing))
            done, rows, _ = self.rows("post")
            self.assertEqual(done.returncode, 0, done.stderr)
            row = rows[("write_inline_8", "verbatim.prepared", "instructions")]
            self.assertEqual((row["best"], row["median"], row["passes"]), (60, 60, 2))
            self.assertTrue(any("instructions" in line and "1.50" in line for line in done.stdout.splitlines()))

    def test_an_unknown_group_is_refused_with_the_known_ones(self):
        self.group("ring", RING)
        self.group("post", {"post/a/floor": {"ns": [1]}})
        done = self.bench("rnig")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("unknown group rnig; known: post, ring", done.stderr)

    def test_without_programs_it_says_how_to_build_them(self):
        done = self.bench()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("scripts/build", done.stderr)

    def test_a_failing_benchmark_is_named_and_the_others_still_count(self):
        bad = {"ring/a/verbatim.x": "error", "ring/a/peer": "die", "ring/a/quiet": {"other": [1]}}
        self.group("ring", {**bad, **RING})
        done, rows, _ = self.rows("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED ring/a/verbatim.x: no peer", done.stdout)
        self.assertIn("out of luck", done.stdout)
        self.assertIn("ring/a/quiet: reports none of the metrics", done.stdout)
        self.assertEqual(len(rows), len(RING))
        for subject in ("verbatim.x", "peer", "quiet"):
            self.assertRegex(done.stdout, rf"ring/a +FAILED +{re.escape(subject)} +2 times")

    def test_targets_of_a_group_are_printed_with_it(self):
        self.group("ring", RING)
        self.group("post", {"post/a/floor": {"ns": [1]}})
        (self.state / "bench/ring/targets.txt").write_text("no more than a fortnight\n")
        self.assertIn("no more than a fortnight\n", self.bench("--quick", "ring").stdout)
        self.assertNotIn("fortnight", self.bench("--quick", "post").stdout)

    def test_names_that_break_the_convention_are_refused(self):
        for name in ("ring/a", "post/a/floor", "ring/a/verbatim", "ring/a/verbatim."):
            self.group("ring", {name: {"ns": [1]}})
            done = self.bench("--quick")
            self.assertEqual(done.returncode, 1, name)
            self.assertIn("is not named ring/<case>/<subject>", done.stdout)

    def test_two_benchmarks_for_one_subject_are_refused(self):
        self.group("ring", {"ring/a/floor/8": {"ns": [1]}, "ring/a/floor/16": {"ns": [1]}})
        self.assertIn("more than one benchmark", self.bench("--quick").stdout)

    def test_says_what_was_not_measured(self):
        self.group("ring", RING)
        self.assertIn("Not measured: a ConnectX", self.bench("--quick").stdout)

    def test_a_json_file_in_no_directory_is_refused_before_anything_runs(self):
        self.group("ring", RING)
        done = self.bench("--json", str(self.state / "none" / "rows.json"))
        self.assertEqual(done.returncode, 2)
        self.assertFalse((self.state / "order").exists())


if __name__ == "__main__":
    unittest.main()
