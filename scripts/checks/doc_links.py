#!/usr/bin/env python3
"""The documents match the tree: relative links lead somewhere, and docs/architecture.md maps every directory.

In docs/architecture.md each `path/in/back-quotes` that starts at a top-level directory must exist, and each
directory that holds source files must be named there, itself or one that it lies in.
"""

import pathlib
import re
import sys
import urllib.parse

import common
from common import Case

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
MAP = "docs/architecture.md"


def without_code(text: str) -> str:
    """Blanks fenced code, which may show links that are not ours; line numbers stay."""
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


def link_problems(root: pathlib.Path, document: pathlib.Path) -> list[str]:
    problems = []
    text = without_code(document.read_text(encoding="utf-8"))
    for match in LINK.finditer(text):
        target = urllib.parse.unquote(match.group(1)).partition("#")[0]
        if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        place = root / target.lstrip("/") if target.startswith("/") else document.parent / target
        if not place.exists():
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{document.relative_to(root)}:{line}: no such file: {target}")
    return problems


def source_directories(root: pathlib.Path) -> set[str]:
    """Directories that hold code, relative to the root."""
    return {str(path.parent.relative_to(root)) for path in common.cpp_files(root)}


def map_problems(root: pathlib.Path) -> list[str]:
    document = root / MAP
    if not document.exists():
        return [f"{MAP} is missing"]
    tops = {path.name for path in root.iterdir() if path.is_dir()}
    text = document.read_text(encoding="utf-8")
    named = {match.rstrip("/") for match in re.findall(r"`([\w.+/-]+/[\w.+/-]*)`", text) if match.split("/")[0] in tops}
    problems = [
        f"{MAP}: names `{name}`, which does not exist" for name in sorted(named) if not (root / name).exists()
    ]
    for directory in sorted(source_directories(root)):
        around = [directory, *map(str, pathlib.PurePath(directory).parents)]
        if named.isdisjoint(around):
            problems.append(f"{MAP}: says nothing about {directory}/")
    return problems


def find_problems(root: pathlib.Path) -> list[str]:
    problems = map_problems(root)
    for path in common.files(root):
        if path.suffix == ".md":
            problems += link_problems(root, path)
    return problems


CHECK = common.Check(
    "doc_links",
    find_problems,
    [
        Case("all is well", {MAP: "`core/src/` [config](../README.md#top)\n", "README.md": "", "core/src/a.cpp": ""}),
        Case("a dead link", {MAP: "", "README.md": "x\n[the map](docs/none.md)\n"}, "README.md:2: no such file"),
        Case("a web link and a fenced one", {MAP: "[a](https://example.org)\n```\n[b](none)\n```\n"}),
        Case("a dead path in the map", {MAP: "`core/old/`\n", "core/src/a.md": ""}, "`core/old`, which does not exist"),
        Case("a directory the map forgets", {MAP: "", "core/src/a.cpp": ""}, "says nothing about core/src/"),
        Case("named by a directory around it", {MAP: "`core/`\n", "core/src/parts/a.cpp": ""}),
        Case("no map", {"README.md": ""}, "is missing"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
