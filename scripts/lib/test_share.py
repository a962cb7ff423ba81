"""Names the tests of one share of a build directory: every M-th of those that a stage of scripts/test runs, in the
order of their names, from the N-th on. All shares together are all tests."""

import argparse
import json
import pathlib


def share_of(text: str) -> tuple[int, int]:
    """`N/M` with 1 <= N <= M."""
    number, _, shares = text.partition("/")
    if not (number.isdigit() and shares.isdigit() and 1 <= int(number) <= int(shares)):
        raise argparse.ArgumentTypeError(f"not a share such as 1/5: {text!r}")
    return int(number), int(shares)


def suites_of(test: dict) -> set[str]:
    """meson writes `project:suite`."""
    return {suite.rpartition(":")[2] for suite in test["suite"]}


def names(tests: list[dict], wanted: set[str], unwanted: set[str], share: tuple[int, int]) -> list[str]:
    """`wanted`: empty for every suite."""
    fit = [test["name"] for test in tests
           if (not wanted or suites_of(test) & wanted) and not suites_of(test) & unwanted]
    return sorted(fit)[share[0] - 1::share[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path, help="a configured build directory")
    parser.add_argument("--share", type=share_of, required=True, help="N/M")
    parser.add_argument("--suite", action="append", default=[], help="only tests of these suites")
    parser.add_argument("--no-suite", action="append", default=[], help="no tests of these suites")
    arguments = parser.parse_args()
    tests = json.loads((arguments.directory / "meson-info/intro-tests.json").read_text(encoding="utf-8"))
    print("\n".join(names(tests, set(arguments.suite), set(arguments.no_suite), arguments.share)))


if __name__ == "__main__":
    main()
