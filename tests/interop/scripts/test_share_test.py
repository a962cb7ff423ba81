"""scripts/lib/test_share.py: which tests a share has."""

import argparse
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "scripts" / "lib"))
import test_share  # noqa: E402


def entry(name, *suites):
    return {"name": name, "suite": [f"verbatim:{suite}" for suite in suites]}


TESTS = [
    entry("d", "unit"), entry("a", "unit", "tsan"), entry("c", "fault"), entry("b", "unit", "variant"), entry("e", "fuzz"),
]


class TestShare(unittest.TestCase):
    def test_shares_together_are_all_tests_each_once(self):
        for shares in (1, 2, 3, 7):
            found = [name for n in range(shares) for name in test_share.names(TESTS, set(), set(), (n + 1, shares))]
            self.assertEqual(sorted(found), ["a", "b", "c", "d", "e"])

    def test_suites_count_before_the_share(self):
        self.assertEqual(test_share.names(TESTS, set(), {"variant", "fuzz"}, (1, 2)), ["a", "d"])
        self.assertEqual(test_share.names(TESTS, {"tsan"}, set(), (1, 2)), ["a"])
        self.assertEqual(test_share.names(TESTS, {"tsan"}, set(), (2, 2)), [])

    def test_what_is_no_share_is_refused(self):
        for text in ("0/5", "6/5", "5", "/", "1/0", "a/b", "-1/5"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=text):
                test_share.share_of(text)


if __name__ == "__main__":
    unittest.main()
