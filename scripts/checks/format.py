#!/usr/bin/env python3
"""C++ files are formatted as .clang-format says. To format them: `scripts/format`."""

import pathlib
import re
import shutil
import subprocess
import sys

import common
from common import Case


def find_problems(root: pathlib.Path) -> list[str]:
    if not shutil.which("clang-format"):
        return ["clang-format is not installed; run scripts/install-packages"]
    paths = [str(path.relative_to(root)) for path in common.cpp_files(root)]
    if not paths:
        return []
    done = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True, check=False)
    first = {}  # one line a file is enough: scripts/format mends all of it
    for match in re.finditer(r"^([^:\n]+\.\w+):(\d+):\d+: error: code should be", done.stderr, re.MULTILINE):
        first.setdefault(match.group(1), match.group(2))
    problems = [f"{path}:{line}: not formatted; run scripts/format" for path, line in first.items()]
    if done.returncode != 0 and not problems:
        problems.append(f"clang-format failed: {done.stderr.strip()}")
    return problems


STYLE = "BasedOnStyle: Google\nIndentWidth: 4\n"
CHECK = common.Check(
    "format",
    find_problems,
    [
        Case("formatted", {".clang-format": STYLE, "core/a.cpp": "int f() {\n    return g();\n    h();\n}\n"}),
        Case("another indent", {".clang-format": STYLE, "core/a.cpp": "int f() {\n  g();\n  return h();\n}\n"},
             "core/a.cpp:1"),
        Case("a broken style file", {".clang-format": "NoSuchKey: 1\n", "core/a.cpp": "int a;\n"}, "clang-format failed"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
