#!/usr/bin/env python3
"""No file over 600 lines, no function over 80, none with more than 6 parameters, no folder with more than 25 sources.

Exceptions stand in file_sizes.allow beside this script, one a line: `path  reason` or `path:function  reason`.
An exception without a reason, or one that is no longer needed, is a problem too.
"""

import collections
import json
import pathlib
import shutil
import subprocess
import sys

import common
from common import Case

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
MAX_PARAMETERS = 6
MAX_FOLDER_SOURCES = 25
ALLOW_LIST = "scripts/checks/file_sizes.allow"
SOURCE_SUFFIXES = (*common.CPP_SUFFIXES, ".py")
SUFFIXES = (*common.CPP_SUFFIXES, ".py", ".md", ".build", ".toml", ".proto")


def is_ours(path: pathlib.Path) -> bool:
    return path.suffix in SUFFIXES or (not path.suffix and is_text_script(path))


def is_text_script(path: pathlib.Path) -> bool:
    return common.is_script(path, "bash") or common.is_script(path, "python")


def count_parameters(signature: str) -> int:
    """Top-level commas of '(int a, std::pair<int, int> b)', plus one."""
    inside = signature.strip().split(") const")[0].strip()
    inside = inside[1 : inside.rfind(")")] if ")" in inside else inside[1:]
    if inside.strip() in ("", "void"):
        return 0
    depth = commas = 0
    for letter in inside:
        depth += letter in "(<[{"
        depth -= letter in ")>]}"
        commas += letter == "," and depth == 0
    return commas + 1


def functions(paths: list[pathlib.Path]) -> list[dict]:
    """ctags' view of the functions in C++, Python and shell files."""
    kinds = ["--kinds-C++=f", "--kinds-Python=fm", "--kinds-Sh=f"]
    command = ["ctags", "--output-format=json", "--fields=+neS", "--langmap=C++:+.h", *kinds, "-L", "-"]
    done = subprocess.run(
        command, input="\n".join(map(str, paths)), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def size_problems(root: pathlib.Path, paths: list[pathlib.Path]) -> dict[str, str]:
    """What is too large, by the name that the allow list would use."""
    found = {}
    folders = collections.Counter(path.parent for path in paths if path.suffix in SOURCE_SUFFIXES)
    for folder, count in folders.items():
        if count > MAX_FOLDER_SOURCES:
            found[str(folder.relative_to(root))] = f"{count} sources, at most {MAX_FOLDER_SOURCES}"
    for path in paths:
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > MAX_FILE_LINES:
            found[str(path.relative_to(root))] = f"{lines} lines, at most {MAX_FILE_LINES}"
    for tag in functions([path for path in paths if path.suffix != ".md"]):
        name = f"{pathlib.Path(tag['path']).relative_to(root)}:{tag['name']}"
        lines = tag.get("end", tag["line"]) - tag["line"] + 1
        parameters = count_parameters(tag.get("signature") or "()")
        if lines > MAX_FUNCTION_LINES:
            found[name] = f"function of {lines} lines, at most {MAX_FUNCTION_LINES}"
        elif parameters > MAX_PARAMETERS:
            found[name] = f"{parameters} parameters, at most {MAX_PARAMETERS}"
    return found


def read_exceptions(root: pathlib.Path) -> dict[str, str]:
    path = root / ALLOW_LIST
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = (line.partition(" ") for line in lines if line.strip() and not line.startswith("#"))
    return {name: reason.strip() for name, _, reason in pairs}


def find_problems(root: pathlib.Path) -> list[str]:
    if not shutil.which("ctags"):
        return ["ctags is not installed; run scripts/install-packages"]
    found = size_problems(root, [path for path in common.files(root) if is_ours(path)])
    allowed = read_exceptions(root)
    problems = [f"{name}: {text}" for name, text in found.items() if name not in allowed]
    problems += [f"{ALLOW_LIST}: {name}: no reason given" for name, reason in allowed.items() if not reason]
    problems += [f"{ALLOW_LIST}: {name}: no longer needed" for name in allowed if name not in found]
    return problems


def body(lines: int) -> str:
    return "int f() {\n" + "    g();\n" * (lines - 2) + "}\n"


CHECK = common.Check(
    "file_sizes",
    find_problems,
    [
        Case("as long as allowed", {"core/a.cpp": body(80), "core/b.cpp": "//\n" * 600}),
        Case("a long file", {"core/a.cpp": "//\n" * 601}, "core/a.cpp: 601 lines"),
        Case("a long function", {"core/a.cpp": body(81)}, "core/a.cpp:f: function of 81 lines"),
        Case("many parameters", {"core/a.cpp": "void f(int a, int b, int c, int d, int e, int g, int h) {}\n"},
             "f: 7 parameters"),
        Case("commas in types", {"core/a.cpp": "void f(std::map<A, B> a, int b, int c, int d, int e, P<A, B> g) {}\n"}),
        Case("an exception", {"core/a.cpp": "//\n" * 601, ALLOW_LIST: "core/a.cpp generated table\n"}),
        Case("an exception without reason", {"core/a.cpp": "//\n" * 601, ALLOW_LIST: "core/a.cpp\n"}, "no reason"),
        Case("a stale exception", {"core/a.cpp": "", ALLOW_LIST: "core/a.cpp generated table\n"}, "no longer needed"),
        Case("a full folder", {f"core/{i}.cpp": "" for i in range(26)}, "core: 26 sources"),
        Case("a long script", {"scripts/x": "#!/bin/bash\n" + ":\n" * 600}, "scripts/x: 601 lines"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
