#!/usr/bin/env python3
"""Runs every check of this directory: first its self-test, then the tree. Each of the two counts as one test."""

import argparse
import pathlib
import sys
import time

import class_sizes
import common
import doc_links
import file_sizes
import format as format_check
import headers_alone
import include_direction
import script_syntax
import user_names
import wording

CHECKS = [
    module.CHECK
    for module in (include_direction, file_sizes, class_sizes, format_check, doc_links, script_syntax, wording, user_names, headers_alone)
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2], help="tree to check")
    parser.add_argument("--append", type=pathlib.Path, help="file that gets one line: passed failed skipped label")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    failed = 0
    for check in CHECKS:
        started = time.monotonic()
        proof, problems = common.self_test(check), check.find_problems(root)
        failed += bool(proof) + bool(problems)
        for line in [f"self-test: {text}" for text in proof] + problems:
            print(f"FAILED check {check.name}: {line}")
        if not proof and not problems:
            print(f"check {check.name}: ok ({time.monotonic() - started:.1f} s)")
    passed = 2 * len(CHECKS) - failed
    print(f"checks: {passed} passed, {failed} failed")
    if arguments.append:
        with arguments.append.open("a", encoding="utf-8") as results:
            results.write(f"{passed} {failed} 0 checks\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
