#!/usr/bin/env python3
"""Scripts parse (bash -n, Python's compiler), are executable where they have a first line, and bash ones stop at
the first failing command or say in their first lines that they do not."""

import os
import pathlib
import subprocess
import sys

import common
from common import Case

HEAD_LINES = 15  # where a bash script declares its `set` options


def bash_problems(path: pathlib.Path) -> list[str]:
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    problems = [done.stderr.strip()] if done.returncode else []
    head = path.read_text(encoding="utf-8").splitlines()[:HEAD_LINES]
    if not any(line.startswith("set -") and "u" in line.split()[1] for line in head):
        problems.append("no `set -euo pipefail` (or a subset with u) in its first lines")
    return problems


def python_problems(path: pathlib.Path) -> list[str]:
    try:
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    return []


def find_problems(root: pathlib.Path) -> list[str]:
    problems = []
    for path in common.files(root):
        found = []
        if common.is_script(path, "bash"):
            found += bash_problems(path)
        if path.suffix == ".py" or common.is_script(path, "python"):
            found += python_problems(path)
        if common.is_script(path, "") and not os.access(path, os.X_OK):
            found.append("starts with #! but is not executable")
        problems += [f"{path.relative_to(root)}: {text}" for text in found]
    return problems


CHECK = common.Check(
    "script_syntax",
    find_problems,
    [
        Case("plain files", {"a.py": "print(1)\n", "b.md": "text\n"}),
        Case("bash that does not parse", {"a": "#!/bin/bash\nset -eu\nif true\n"}, "syntax error"),
        Case("bash that ignores errors", {"a": "#!/bin/bash\nfalse\n"}, "set -euo pipefail"),
        Case("python that does not parse", {"a.py": "def f(:\n"}, "a.py: line 1"),
        Case("not executable", {"a": "#!/bin/sh\n"}, "not executable"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
