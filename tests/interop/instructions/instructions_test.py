"""Instructions of one post and one poll, against the numbers stored in bench/post/instructions.txt: 3 % either way.

Usage: instructions_test.py PROGRAM STORED [--store | unittest's arguments]. PROGRAM is bench_post_instructions, which counts
by the processor's trap flag: the same number in every run and under any load. More instructions are a regression; fewer
are stored with --store, in the commit that saved them.
"""

import pathlib
import subprocess
import sys
import unittest

RUNS = (128, 256)  # operations of a short and of a long run: their difference leaves out the set-up
TOLERANCE = 0.03
HEADER = """# Instructions of one operation: case, subject, count. Built by g++ 12 with -O3 for baseline x86-64.
# Kept by tests/interop/instructions/instructions_test.py; made anew with its --store.
"""


def total(case: str, subject: str, operations: int) -> int:
    command = [PROGRAM, "--count", case, subject, str(operations)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def count(case: str, subject: str) -> float:
    short, long = (total(case, subject, operations) for operations in RUNS)
    return (long - short) / (RUNS[1] - RUNS[0])


def hot_paths() -> list[tuple[str, str]]:
    """Ours without the engine, whose copies are the C library's and differ between processors."""
    listed = subprocess.run([PROGRAM, "--list"], capture_output=True, text=True, check=True, timeout=60).stdout
    pairs = [tuple(line.split()[:2]) for line in listed.splitlines()]
    return [pair for pair in pairs if pair[1].startswith("verbatim.") and not pair[0].endswith("_engine")]


def stored() -> dict[tuple[str, str], float]:
    rows = [line.split() for line in STORED.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {(case, subject): float(number) for case, subject, number in rows}


class Instructions(unittest.TestCase):
    def test_floor_is_counted_at_all(self):
        self.assertGreater(total("write_inline_8", "floor", RUNS[1]), total("write_inline_8", "floor", RUNS[0]),
                           "the trap flag counts nothing here: this machine cannot run the gate")

    def test_every_hot_path_has_a_stored_number(self):
        self.assertEqual(sorted(hot_paths()), sorted(stored()), "make it anew with --store")

    def test_hot_paths_are_within_three_percent(self):
        for (case, subject), expected in stored().items():
            with self.subTest(case=case, subject=subject):
                found = count(case, subject)
                self.assertLessEqual(abs(found - expected), TOLERANCE * expected,
                                     f"{found:.2f} instructions, stored {expected:.2f}; if meant, store it with --store")


def store() -> None:
    rows = [f"{case} {subject} {count(case, subject):.2f}\n" for case, subject in hot_paths()]
    STORED.write_text(HEADER + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    PROGRAM, STORED = sys.argv[1], pathlib.Path(sys.argv[2])
    if sys.argv[3:] == ["--store"]:
        store()
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
