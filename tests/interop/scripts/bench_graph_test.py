"""Group `graph` of the benchmarks: each subject receives what was sent. Argument: the group's program."""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SMALL = ("graph/(cyclic_100k|sides_cyclic_100k|traversal_.*|mesh_2.16.*|(unordered_)?map_100k.*|tree_2.20|small_4|graph_10|floats_2.6|"
         "map_2.10|local_cyclic.*|forward_points.*|rate_of_sends|polymorphic_tree.*)/")
SECONDS = 300  # for what takes far less


def call(*options):
    return subprocess.run(
        [PROGRAM, *options], capture_output=True, text=True, timeout=SECONDS, check=True).stdout


class BenchGraph(unittest.TestCase):
    def test_each_subject_receives_what_was_sent(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / "out.json"
            call(f"--benchmark_filter={SMALL}", "--benchmark_min_time=0.001", f"--benchmark_out={out}",
                 "--benchmark_out_format=json")
            rows = json.loads(out.read_text(encoding="utf-8"))["benchmarks"]
        self.assertGreater(len(rows), 40)
        for row in rows:
            with self.subTest(row["name"]):
                self.assertFalse(row.get("error_occurred", False), row.get("error_message"))
                metrics = ("ns_per_object", "us_one_way", "us", "ns_sender")
                self.assertGreater(max(row.get(metric, 0) for metric in metrics), 0)

    def test_each_case_has_one_floor_and_verbatim_but_for_maps(self):
        subjects = collections.defaultdict(list)
        for name in call("--benchmark_list_tests=true").split():
            subjects[name.split("/")[1]].append(name.split("/")[2])
        for case, names in subjects.items():
            with self.subTest(case):
                self.assertEqual(len(names), len(set(names)))
                self.assertEqual(names.count("floor"), 1)
                self.assertTrue("map" in case or any(name.startswith("verbatim.") for name in names))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
