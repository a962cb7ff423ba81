#!/usr/bin/env python3
"""Every header compiles alone, twice in a row, with both compilers and warnings as errors.

Include order must not matter to users. Public headers (<layer>/include) are tried with every compiler, private
ones with the first. A header that some source includes first is compiled alone by each build: of those only the
guard is looked at. Without VERBATIM_LONG, public headers are tried with the first compiler alone: the rest takes
80 s of two cores, and both compilers read the same standard library.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

import common
from common import LAYERS, Case

COMPILERS = ("g++", "clang++")
TREE = pathlib.Path(__file__).resolve().parents[2]  # those of the self-test are small, and tried in full
FLAGS = (
    "-std=c++20 -fsyntax-only -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion"
    " -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers"
).split()


def headers(root: pathlib.Path) -> list[pathlib.Path]:
    return [
        path
        for path in common.cpp_files(root)
        if path.suffix in (".hpp", ".h") and path.relative_to(root).parts[0] in LAYERS
    ]


FIRST_INCLUDE = re.compile(r"^#include\s+[<\"]([^>\"]+)[>\"]", re.MULTILINE)


def included_first(root: pathlib.Path) -> set[pathlib.Path]:
    """Headers that are the first include of a source: nothing before it can have helped."""
    found = set()
    for source in common.cpp_files(root):
        if source.suffix != ".cpp" or source.relative_to(root).parts[0] not in LAYERS:
            continue
        first = FIRST_INCLUDE.search(source.read_text(encoding="utf-8"))
        if first:
            places = [source.parent] + [root / layer / "include" for layer in LAYERS] + [root / layer for layer in LAYERS]
            found.update(place / first.group(1) for place in places if (place / first.group(1)).exists())
    return {path.resolve() for path in found}


def unguarded(root: pathlib.Path) -> list[str]:
    return [
        f"{header.relative_to(root)}: no #pragma once"
        for header in headers(root)
        if "\n#pragma once\n" not in "\n" + header.read_text(encoding="utf-8")
    ]


def compile_alone(root: pathlib.Path, header: pathlib.Path, compiler: str) -> str | None:
    """The first error, or None."""
    places = [root / layer / "include" for layer in LAYERS] + [root / layer for layer in LAYERS] + [root]
    include = f'#include "{header}"\n'
    command = [compiler, *FLAGS, *(f"-I{place}" for place in places), "-x", "c++", "-"]
    done = subprocess.run(command, input=include * 2, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return f"{header.relative_to(root)}: {compiler}: {errors[0] if errors else done.stderr.strip()}"


def compilers_for(header: pathlib.Path, thorough: bool) -> tuple[str, ...]:
    public = "include" in header.parts
    if thorough:
        return COMPILERS if public else COMPILERS[:1]
    return COMPILERS[:1] if public else ()


def find_problems(root: pathlib.Path) -> list[str]:
    absent = [compiler for compiler in COMPILERS if not shutil.which(compiler)]
    if absent:
        return [f"{compiler} is not installed; run scripts/install-packages" for compiler in absent]
    built = included_first(root)
    jobs = [
        (root, header, compiler)
        for header in headers(root)
        if header.resolve() not in built
        for compiler in compilers_for(header.relative_to(root), "VERBATIM_LONG" in os.environ or root != TREE)
    ]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return unguarded(root) + [problem for problem in pool.map(lambda job: compile_alone(*job), jobs) if problem]


NAME = "core/include/verbatim/core/a.hpp"
CHECK = common.Check(
    "headers_alone",
    find_problems,
    [
        Case("a complete header", {NAME: "#pragma once\n#include <string>\nstruct A { std::string s; };\n"}),
        Case("a missing include", {NAME: "#pragma once\nstruct A { std::string s; };\n"}, f"{NAME}: clang++"),
        Case("no include guard", {NAME: "struct A {};\n"}, f"{NAME}: g++"),
        Case("a warning", {NAME: "#pragma once\ninline int f(long v) { return v; }\n"}, "onversion"),
        Case(
            "a header that its source includes first",
            {
                "core/src/a.hpp": "#pragma once\nstd::string s;\n",
                "core/src/a.cpp": '// About it.\n#include "a.hpp"\n',
            },
        ),
        Case(
            "an unguarded header that its source includes first",
            {"core/src/a.hpp": "struct A {};\n", "core/src/a.cpp": '#include "a.hpp"\n'},
            "core/src/a.hpp: no #pragma once",
        ),
        Case("a private header", {"core/src/a.hpp": "#pragma once\nstd::string s;\n"}, "core/src/a.hpp"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
