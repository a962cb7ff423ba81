"""Counts what a `meson test` run really executed, from its testlog.json.

A test that is marked `should_fail` (a known fault, with the issue that will mend it) counts as skipped while it
fails, and as a failure as soon as it passes or dies of a signal. A GoogleTest, unittest or TAP program counts as the cases it reports, any other program as one. A program that dies,
times out or ends non-zero without naming a failed case adds one failure, and so does one that ran nothing: a
test that did not run must never look like a test that passed.

A failure may be one of time: the machine was busy. `--to-repeat` names such programs, for a second run with nothing
beside them; `--again` has the log of that run, which counts in place of the first. What passed only then is printed.
Crashes and reports of sanitizers are no matter of time, and many failures are none either: they stay.
"""

import argparse
import json
import pathlib
import re
import sys
from dataclasses import dataclass, field

GTEST_RESULT = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] \S+.* \(\d+ ms\)")
GTEST_START = re.compile(r"\[==========\] Running (\d+) tests? from")
GTEST_END = re.compile(r"\[==========\] \d+ tests? from \d+ test suites? ran\.")
UNITTEST_END = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
TAP_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)
TAP_RESULT = re.compile(r"^(ok|not ok) \d+(.*)$", re.MULTILINE)
MOST_REPEATED = 4  # programs
NO_MATTER_OF_TIME = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:")
UNITTEST_BAD = re.compile(r"\b(failures|errors|unexpected successes|skipped)=(\d+)")


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Count") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.problems += other.problems

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.problems.append(reason)

    def ran_nothing(self) -> bool:
        return self.passed + self.failed + self.skipped == 0

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def count_gtest(output: str) -> Count:
    """Cases of one GoogleTest program; a missing end line means that it died."""
    count = Count()
    for match in GTEST_RESULT.finditer(output):
        if match.group(1) == "OK":
            count.passed += 1
        elif match.group(1) == "SKIPPED":
            count.skipped += 1
        else:
            count.fail(match.group(0))
    if not GTEST_END.search(output):
        count.fail("the program ended before its last test did")
    elif count.ran_nothing():
        count.fail("the program ran no tests")
    return count


def count_unittest(output: str) -> Count:
    """Cases of one Python unittest program."""
    numbers = dict.fromkeys(("failures", "errors", "unexpected successes", "skipped"), 0)
    numbers.update({word: int(number) for word, number in UNITTEST_BAD.findall(output)})
    skipped = numbers.pop("skipped")
    failed = sum(numbers.values())
    total = sum(int(number) for number in UNITTEST_END.findall(output))
    count = Count(passed=total - failed - skipped, skipped=skipped)
    for _ in range(failed):
        count.fail("a unittest case failed")
    if total == 0:
        count.fail("the program ran no tests")
    return count


def count_tap(output: str) -> Count:
    """Cases of one program of the Test Anything Protocol; fewer than planned means that it died."""
    count = Count()
    for match in TAP_RESULT.finditer(output):
        if match.group(1) == "not ok":
            count.fail(match.group(0))
        elif re.search(r"# skip", match.group(2), re.IGNORECASE):
            count.skipped += 1
        else:
            count.passed += 1
    planned = int(TAP_PLAN.search(output).group(1))
    if count.passed + count.failed + count.skipped != planned or planned == 0:
        count.fail(f"{planned} cases were planned, others ran")
    return count


def count_test(entry: dict) -> Count:
    """What one line of testlog.json stands for."""
    stdout, stderr = entry.get("stdout") or "", entry.get("stderr") or ""
    result = entry["result"]
    if result == "INTERRUPT":  # the whole run was stopped
        return Count(skipped=1)
    if result == "EXPECTEDFAIL" and entry.get("returncode", 1) > 0:
        return Count(skipped=1)
    if GTEST_START.search(stdout):
        count = count_gtest(stdout)
    elif UNITTEST_END.search(stderr):
        count = count_unittest(stderr)
    elif TAP_PLAN.search(stdout) and TAP_RESULT.search(stdout):
        count = count_tap(stdout)
    elif result == "SKIP":
        count = Count(skipped=1)
    else:
        count = Count(passed=1 if result == "OK" else 0)
    if result not in ("OK", "SKIP") and count.failed == 0:
        count.fail(f"{result} (exit status {entry.get('returncode')})")
    count.problems = [f"{entry['name']}: {problem}" for problem in count.problems]
    return count


def read_log(path: pathlib.Path) -> list[dict]:
    """The entries of a testlog.json, one for each test; none where it is absent."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]


def may_be_of_time(entry: dict) -> bool:
    """Whether another run may say otherwise: it neither died of a signal nor did a sanitizer speak."""
    output = (entry.get("stdout") or "") + (entry.get("stderr") or "")
    was_killed = entry["result"] != "TIMEOUT" and not 0 <= entry.get("returncode", 1) < 128
    return not was_killed and not NO_MATTER_OF_TIME.search(output)


def to_repeat(path: pathlib.Path) -> list[str]:
    """Tests for a second run: those that failed, if they are few and may have failed for lack of time."""
    failed = [entry for entry in read_log(path) if count_test(entry).failed]
    if len(failed) > MOST_REPEATED:
        return []
    return [entry["name"] for entry in failed if may_be_of_time(entry)]


def argument_of(name: str) -> str:
    """What `meson test` takes for a test that a log calls "project:suites / name"."""
    return name.rpartition(" / ")[2]


def second_run(path: pathlib.Path, again: pathlib.Path | None) -> dict[str, dict]:
    """The entries that count in place of failures, by test."""
    repeated = to_repeat(path) if again else []
    return {entry["name"]: entry for entry in read_log(again) if entry["name"] in repeated} if again else {}


def count_log(path: pathlib.Path, again: pathlib.Path | None = None) -> Count:
    """Sums a testlog.json; a log that is absent or empty is a failure. A second run counts in place of the first."""
    second = second_run(path, again)
    total = Count()
    for entry in read_log(path):
        total.add(count_test(second.get(entry["name"], entry)))
    if total.ran_nothing():
        total.fail("no test ran")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("log", type=pathlib.Path, help="testlog.json of a meson run")
    parser.add_argument("--label", required=True, help="name of the run in messages")
    parser.add_argument("--again", type=pathlib.Path, help="log of the second run of those that failed")
    parser.add_argument("--to-repeat", action="store_true", help="only print which tests should have a second run")
    parser.add_argument("--append", type=pathlib.Path, help="file that gets one line: passed failed skipped label")
    arguments = parser.parse_args()
    if arguments.to_repeat:
        print("\n".join(map(argument_of, to_repeat(arguments.log))))
        return 0
    count = count_log(arguments.log, arguments.again)
    for name in second_run(arguments.log, arguments.again):
        print(f"REPEATED {arguments.label}: {name} failed beside others; the second run, alone, counts")
    for problem in count.problems:
        print(f"FAILED {arguments.label}: {problem}")
    print(f"{arguments.label}: {count}")
    if arguments.append:
        with arguments.append.open("a", encoding="utf-8") as results:
            results.write(f"{count.passed} {count.failed} {count.skipped} {arguments.label}\n")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
