"""Group `core` of the benchmarks: every row gives figures, and failures stay in theirs. Argument: the group's program."""

import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
PERCENTILES = ("p99_us", "p99.9_us", "p99.99_us", "max_us")
MAY_BE_NOTHING = ("kib_tables", "kib_slab", "descriptors", "mappings")  # of one more connection; the slab is the machine's
SECONDS = 20  # for what takes far less


def call(*options, **environment):
    return subprocess.run(
        [PROGRAM, *options], capture_output=True, text=True, timeout=200, env={**os.environ, **environment}, check=False)


def children(process):
    """Of this process; the zombies among them have no command line."""
    text = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text(encoding="ascii").split(")")[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def await_true(condition):
    limit = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("the condition does not come true")
        time.sleep(0.01)


class BenchCore(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = pathlib.Path(scratch.name) / "out.json"

    def rows(self):
        return json.loads(self.out.read_text(encoding="utf-8"))["rows"]

    def start(self, subject):
        """One subject that would run for minutes; its two processes."""
        running = subprocess.Popen(
            [PROGRAM, "--passes", "1", "--milliseconds", "300000", "--filter", f"^{subject}$", "--json", self.out],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        await_true(lambda: len(children(running.pid)) == 2)
        return running, children(running.pid)

    def test_every_row_has_figures(self):
        listed = call("--list").stdout.split()
        self.assertEqual(len(listed), len(set(listed)))
        done = call("--passes", "1", "--milliseconds", "1", "--json", self.out)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {(row["case"], row["subject"], row["metric"]): row for row in self.rows()}
        heads = {f"{case}/{subject}" for case, subject, _ in rows}
        self.assertEqual(heads, set(listed))
        for key, row in rows.items():
            self.assertEqual(row["passes"], 1, key)
            for value in (row["best"], row["median"], *row["values"]):
                self.assertTrue(math.isfinite(value) and (value > 0 or key[2] in MAY_BE_NOTHING), key)
        for case, subject, metric in rows:
            if metric in ("us_one_way", "us"):
                values = [rows[case, subject, name]["median"] for name in (metric, *PERCENTILES)]
                self.assertEqual(values, sorted(values), (case, subject))
        for name in ("CPU", "UCX", "libfabric", "ZeroMQ", "Not measured: a ConnectX"):
            self.assertIn(name, done.stdout)

    def test_all_that_were_asked_for_take_part(self):
        listed = call("--list").stdout.split()
        for subject in ("floor", "verbatim.ring", "ucx_tag", "ucx_am", "libfabric_tag", "zeromq", "unix", "unix_polled",
                        "tcp", "tcp_polled"):
            for case in ("message_8", "message_1k", "message_64k", "rate_8", "throughput_64k"):
                self.assertIn(f"{case}/{subject}", listed)
        for subject in ("floor", "verbatim.write", "ucx_put"):
            self.assertIn(f"write_8/{subject}", listed)

    def test_ratios_to_the_floor_and_to_ucx(self):
        call("--passes", "2", "--milliseconds", "2", "--filter", "^rate_8/(floor|ucx_put)$", "--json", self.out)
        rows = {row["subject"]: row for row in self.rows()}
        self.assertEqual(rows["floor"]["times_slower_than_floor"], 1)
        self.assertEqual(rows["ucx_put"]["times_slower_than_ucx"], 1)
        pairs = zip(rows["floor"]["values"], rows["ucx_put"]["values"])
        by_hand = [floor / put for floor, put in pairs]
        self.assertAlmostEqual(rows["ucx_put"]["times_slower_than_floor"], sum(by_hand) / 2, places=6)

    def test_a_subject_that_fails_has_its_error_and_the_others_their_figures(self):
        done = call("--passes", "1", "--milliseconds", "1", "--filter", "message_8/(floor|lib|tcp)", "--json", self.out,
                    FI_PROVIDER="tcp")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"FAILED message_8/libfabric_tag: 1 of 1 passes: .*fi_getinfo")
        rows = self.rows()
        self.assertEqual({row["subject"] for row in rows if "error" in row}, {"libfabric_tag"})
        self.assertEqual({row["subject"] for row in rows if "metric" in row}, {"floor", "tcp", "tcp_polled"})

    def test_processes_die_with_the_program(self):
        running, pair = self.start("message_8/floor")
        running.kill()
        await_true(lambda: not any(alive(process) for process in pair))

    def test_a_process_that_dies_takes_the_other_with_it(self):
        running, pair = self.start("message_8/verbatim.ring")
        os.kill(pair[1], signal.SIGKILL)
        said, _ = running.communicate(timeout=SECONDS)
        self.assertEqual(running.returncode, 1)
        self.assertIn("FAILED message_8/verbatim.ring: 1 of 1 passes: killed by", said)
        self.assertFalse(any(alive(process) for process in pair))

    def test_understands_scripts_bench(self):
        self.assertIn("core/message_8/floor", call("--benchmark_list_tests=true").stdout.split())
        done = call("--benchmark_filter=^core/rate_8/floor$", "--benchmark_min_time=0.002", f"--benchmark_out={self.out}",
                    "--benchmark_out_format=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (one,) = json.loads(self.out.read_text(encoding="utf-8"))["benchmarks"]
        self.assertEqual(one["name"], "core/rate_8/floor")
        self.assertGreater(one["msgs_per_s"], 0)

    def test_refuses_what_matches_nothing_or_is_unknown(self):
        self.assertIn("no subject matches", call("--filter", "carrier_pigeon").stderr)
        self.assertNotEqual(call("--passes", "0").returncode, 0)
        self.assertNotEqual(call("--unknown").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
