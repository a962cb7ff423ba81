"""scripts/lib/test_report.py counts what ran, and nothing that did not run counts as passed."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "scripts" / "lib"))
import test_report  # noqa: E402

PASSING = """[==========] Running 2 tests from 1 test suite.
[ RUN      ] Ring.wraps
[       OK ] Ring.wraps (0 ms)
[ RUN      ] Ring.fills
noise without newline[       OK ] Ring.fills (12 ms)
[==========] 2 tests from 1 test suite ran. (12 ms total)
"""
MIXED = """[==========] Running 3 tests from 1 test suite.
[       OK ] A.a (0 ms)
[  SKIPPED ] A.b (0 ms)
[  FAILED  ] A/B.c/0, where GetParam() = 3 (1 ms)
[==========] 3 tests from 1 test suite ran. (1 ms total)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.b
[  FAILED  ] 1 test, listed below:
[  FAILED  ] A/B.c/0, where GetParam() = 3
"""
DIED = PASSING.split("noise")[0]
EMPTY = """[==========] Running 0 tests from 0 test suites.
[==========] 0 tests from 0 test suites ran. (0 ms total)
"""


def entry(result="OK", stdout="", stderr="", name="t"):
    return {"name": name, "result": result, "stdout": stdout, "stderr": stderr, "returncode": 0 if result == "OK" else 1}


class TestReport(unittest.TestCase):
    def count(self, *entries):
        count = test_report.Count()
        for one in entries:
            count.add(test_report.count_test(one))
        return count.passed, count.failed, count.skipped

    def test_counts_each_case_of_a_gtest_program(self):
        self.assertEqual(self.count(entry(stdout=PASSING)), (2, 0, 0))

    def test_counts_failures_and_skips_once(self):
        self.assertEqual(self.count(entry("FAIL", MIXED)), (1, 1, 1))

    def test_a_program_that_dies_fails_even_if_it_exits_with_zero(self):
        self.assertEqual(self.count(entry("OK", DIED)), (1, 1, 0))
        self.assertEqual(self.count(entry("FAIL", DIED)), (1, 1, 0))

    def test_a_program_without_tests_fails(self):
        self.assertEqual(self.count(entry("OK", EMPTY)), (0, 1, 0))

    def test_a_known_fault_is_skipped_until_it_is_mended_or_dies(self):
        self.assertEqual(self.count(dict(entry("EXPECTEDFAIL", MIXED), returncode=1)), (0, 0, 1))
        self.assertEqual(self.count(dict(entry("UNEXPECTEDPASS", PASSING), returncode=0)), (2, 1, 0))
        self.assertEqual(self.count(dict(entry("EXPECTEDFAIL"), returncode=-11)), (0, 1, 0))
        self.assertEqual(self.count(dict(entry("ERROR"), returncode=99)), (0, 1, 0))

    def test_an_error_after_passing_cases_fails(self):
        self.assertEqual(self.count(entry("FAIL", PASSING)), (2, 1, 0))  # a leak found at exit

    def test_a_time_out_fails(self):
        self.assertEqual(self.count(entry("TIMEOUT")), (0, 1, 0))

    def test_counts_unittest_cases(self):
        bad = "Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n"
        self.assertEqual(self.count(entry("FAIL", stderr=bad)), (2, 2, 1))
        self.assertEqual(self.count(entry(stderr="Ran 5 tests in 0.1s\n\nOK\n")), (5, 0, 0))
        self.assertEqual(self.count(entry(stderr="Ran 0 tests in 0.1s\n\nOK\n")), (0, 1, 0))

    def test_counts_tap_cases(self):
        good = "1..3\nok 1 - a\nok 2 - b # SKIP not here\nok 3 - c\n"
        self.assertEqual(self.count(entry(stdout=good)), (2, 0, 1))
        self.assertEqual(self.count(entry("FAIL", good.replace("ok 3", "not ok 3"))), (1, 1, 1))
        self.assertEqual(self.count(entry(stdout=good.replace("1..3", "1..4"))), (2, 1, 1))

    def test_counts_other_programs_as_one(self):
        self.assertEqual(self.count(entry(), entry("SKIP"), entry("FAIL")), (1, 1, 1))

    def test_a_log_that_is_absent_or_empty_is_a_failure(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "testlog.json"
            self.assertEqual(test_report.count_log(path).failed, 1)
            path.write_text("")
            self.assertEqual(test_report.count_log(path).failed, 1)
            path.write_text(json.dumps(entry(stdout=PASSING)) + "\n" + json.dumps(entry()) + "\n")
            self.assertEqual((test_report.count_log(path).passed, test_report.count_log(path).failed), (3, 0))

    def count_with_second_run(self, first, second):
        with tempfile.TemporaryDirectory() as directory:
            path, again = pathlib.Path(directory) / "first.json", pathlib.Path(directory) / "second.json"
            path.write_text("".join(json.dumps(one) + "\n" for one in first))
            again.write_text("".join(json.dumps(one) + "\n" for one in second))
            count = test_report.count_log(path, again)
            return test_report.to_repeat(path), count.passed, count.failed

    def test_a_second_run_counts_in_place_of_a_failure(self):
        late, fine = entry("TIMEOUT", name="late"), entry(name="fine")
        self.assertEqual(self.count_with_second_run([late, fine], [entry(name="late")]), (["late"], 2, 0))
        self.assertEqual(self.count_with_second_run([late, fine], [late]), (["late"], 1, 1))
        self.assertEqual(self.count_with_second_run([late, fine], []), (["late"], 1, 1))

    def test_a_second_run_is_asked_for_by_the_name_that_meson_takes(self):
        self.assertEqual(test_report.argument_of("verbatim:unit+tsan / core_arena"), "core_arena")

    def test_crashes_reports_and_many_failures_have_no_second_run(self):
        crash = dict(entry("FAIL", name="crash"), returncode=-11)
        report = entry("FAIL", stderr="==7==ERROR: AddressSanitizer: heap-use-after-free", name="report")
        passes = [entry(name=name) for name in ("crash", "report")]
        self.assertEqual(self.count_with_second_run([crash, report], passes), ([], 0, 2))
        many = [entry("FAIL", name=str(i)) for i in range(test_report.MOST_REPEATED + 1)]
        self.assertEqual(self.count_with_second_run(many, [entry(name="0")]), ([], 0, len(many)))


if __name__ == "__main__":
    unittest.main()
