"""Group `softnic` of the benchmarks: real tools give results, and what goes wrong is said. Argument: the group's program."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()


class BenchSoftnic(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def call(self, *options, path=""):
        environment = {**os.environ, "PATH": path + os.environ["PATH"]}
        return subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=100, env=environment, check=False)

    def result(self, name, path=""):
        out = self.scratch / "out.json"
        self.call(f"--benchmark_filter=^softnic/{name}$", "--benchmark_min_time=0.01", f"--benchmark_out={out}", path=path)
        (one,) = json.loads(out.read_text())["benchmarks"]
        return one

    def stand_in(self, text):
        """Of ib_send_lat, before the real one in PATH."""
        tool = self.scratch / "ib_send_lat"
        tool.write_text("#!/bin/sh\n" + text)
        tool.chmod(0o755)
        return f"{self.scratch}:"

    def test_each_name_is_offered_once_by_script_or_probe(self):
        names = self.call("--benchmark_list_tests=true").stdout.split()
        for subject in ("send_8/verbatim.ib_send_lat", "send_8/floor", "tag_8/ucx_tcp", "write_64k/attach"):
            self.assertEqual(names.count(f"softnic/{subject}"), 1, subject)

    def test_perftest_on_the_software_nic(self):
        if shutil.which("ib_send_lat") is None:
            self.skipTest("perftest is not installed")
        self.assertGreater(self.result("send_8/verbatim.ib_send_lat")["us_one_way"], 0)
        self.assertGreater(self.result("write_64k/verbatim.ib_write_bw")["bytes_per_s"], 1e6)

    def test_ucx_on_the_software_nic_and_beside_it(self):
        if shutil.which("ucx_perftest") is None:
            self.skipTest("UCX is not installed")
        for subject in ("verbatim.rc_verbs", "ucx_shared_memory", "ucx_tcp"):
            self.assertGreater(self.result(f"tag_8/{subject}")["us_one_way"], 0, subject)

    def test_what_the_probe_measures(self):
        self.assertGreater(self.result("operation_8/verbatim.send")["ns"], 0)
        self.assertGreater(self.result("read_8/floor")["us"], 0)

    def test_a_tool_that_fails_is_an_error_with_its_last_words(self):
        failed = self.result("send_8/verbatim.ib_send_lat", self.stand_in("echo no more cards; exit 3"))
        self.assertTrue(failed["error_occurred"])
        self.assertIn("ended with status 3: no more cards", failed["error_message"])

    def test_a_tool_that_says_something_else_is_an_error(self):
        failed = self.result("send_8/verbatim.ib_send_lat", self.stand_in("echo all is well"))
        self.assertIn("no result in its output: all is well", failed["error_message"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
