#!/usr/bin/env python3
"""No class of our libraries and programs has more than 25 methods or 15 fields, wherever its members are defined.

Declarations in the class count, so slicing a class over several files does not help; deleted and defaulted functions,
and static constants, do not count. Exceptions stand in class_sizes.allow beside this script, one a line:
`Class methods fields  reason`, with the numbers that it may not exceed. An exception that could be smaller is a problem too.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import common
from common import Case

MAX_METHODS = 25
MAX_FIELDS = 15
ALLOW_LIST = "scripts/checks/class_sizes.allow"
UNCOUNTED = re.compile(r"=\s*(?:delete|default)\b")
STATIC = re.compile(r"\bstatic\b|\bconstexpr\b")


@dataclass
class Size:
    where: str
    methods: int = 0
    fields: int = 0


def tags(paths: list[pathlib.Path]) -> list[dict]:
    command = ["ctags", "--output-format=json", "--fields=+neKZ", "--kinds-C++=csfpm", "--langmap=C++:+.h", "-L", "-"]
    done = subprocess.run(
        command, input="\n".join(map(str, paths)), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def class_sizes(root: pathlib.Path) -> dict[str, Size]:
    """By the class's name without namespaces."""
    paths = [path for path in common.cpp_files(root) if path.relative_to(root).parts[0] in common.LAYERS]
    if not paths:
        return {}
    texts = {str(path): path.read_text(encoding="utf-8").splitlines() for path in paths}
    found = tags(paths)
    classes = {}
    for tag in found:
        if tag["kind"] in ("class", "struct"):
            scope = f"{tag['scope']}::{tag['name']}" if "scope" in tag else tag["name"]
            classes.setdefault((tag["path"], scope), (tag["line"], tag.get("end", tag["line"]), tag["name"]))
    sizes: dict[str, Size] = {}
    for tag in found:
        key = (tag["path"], tag.get("scope", ""))
        if tag["kind"] in ("class", "struct") or key not in classes:
            continue
        first, last, name = classes[key]
        if not first <= tag["line"] <= last:
            continue
        lines = texts[tag["path"]]
        where = f"{pathlib.Path(tag['path']).relative_to(root)}:{first}"
        size = sizes.setdefault(f"{where} {name}", Size(where))
        text = " ".join(lines[tag["line"] - 1 : tag["line"] + 1]) if tag["kind"] != "member" else lines[tag["line"] - 1]
        if tag["kind"] == "member":
            size.fields += not STATIC.search(text)
        else:
            size.methods += not UNCOUNTED.search(text.partition(";")[0] + ";")
    return sizes


def read_exceptions(root: pathlib.Path) -> dict[str, tuple[int, int, str]]:
    path = root / ALLOW_LIST
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, methods, fields, reason = (line.split(maxsplit=3) + [""])[:4]
            found[name] = (int(methods), int(fields), reason.strip())
    return found


def find_problems(root: pathlib.Path) -> list[str]:
    if not shutil.which("ctags"):
        return ["ctags is not installed; run scripts/install-packages"]
    allowed = read_exceptions(root)
    problems = [f"{ALLOW_LIST}: {name}: no reason given" for name, (_, _, reason) in allowed.items() if not reason]
    met = set()
    for place, size in class_sizes(root).items():
        name = place.split()[-1]
        if size.methods <= MAX_METHODS and size.fields <= MAX_FIELDS:
            continue
        methods, fields, _ = allowed.get(name, (MAX_METHODS, MAX_FIELDS, ""))
        met.add(name)
        if size.methods > methods or size.fields > fields:
            problems.append(f"{place}: {size.methods} methods and {size.fields} fields, at most {methods} and {fields}")
        elif (size.methods, size.fields) != (methods, fields) and name in allowed:
            problems.append(f"{ALLOW_LIST}: {name}: {size.methods} {size.fields} are enough")
    return problems + [f"{ALLOW_LIST}: {name}: no longer needed" for name in allowed if name not in met]


def members(methods: int, fields: int) -> str:
    lines = [f"    void m{i}();" for i in range(methods)] + [f"    int f{i}_ = 0;" for i in range(fields)]
    return "class A {\n" + "\n".join(lines) + "\n};\n"


CHECK = common.Check(
    "class_sizes",
    find_problems,
    [
        Case("as large as allowed", {"core/a.hpp": members(25, 15)}),
        Case("many methods", {"core/a.hpp": members(26, 0)}, "core/a.hpp:1 A: 26 methods and 0 fields"),
        Case("many fields", {"core/a.hpp": members(0, 16)}, "core/a.hpp:1 A: 0 methods and 16 fields"),
        Case("what the compiler makes", {"core/a.hpp": "class A {\n    A() = default;\n    A(const A&) = delete;\n" +
                                                       members(25, 15).partition("\n")[2]}),
        Case("an exception", {"core/a.hpp": members(26, 0), ALLOW_LIST: "A 26 0  a table\n"}),
        Case("an exception that grew", {"core/a.hpp": members(27, 0), ALLOW_LIST: "A 26 0  a table\n"}, "at most 26"),
        Case("an exception that shrank", {"core/a.hpp": members(26, 0), ALLOW_LIST: "A 28 0  a table\n"}, "are enough"),
        Case("an exception without reason", {"core/a.hpp": members(26, 0), ALLOW_LIST: "A 26 0\n"}, "no reason"),
        Case("a stale exception", {"core/a.hpp": "", ALLOW_LIST: "A 26 0  a table\n"}, "no longer needed"),
        Case("not of tests", {"tests/a.hpp": members(26, 0)}),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
