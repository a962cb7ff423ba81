#!/usr/bin/env python3
"""Functions of a program whose names the library also uses are never called in place of the library's own.

A call without a namespace also looks beside the types of its arguments, which are the user's. user_names.cpp uses the
public headers with types of a namespace that has a deleted function for each name that a header calls so.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import common
from common import Case

SOURCE = "scripts/checks/user_names.cpp"
LAYERS = ("core", "api")
CALL = re.compile(r"(?<![\w.:>~])([a-z_][a-z_0-9]*)\s*(?:<[^;{}()]*>)?\(")
# Keywords and macros, and what the standard library itself finds beside types.
OTHERS = set(
    "alignas alignof assert bool catch char decltype defined delete double explicit float for if int long new noexcept"
    " offsetof operator requires return sizeof static_assert static_cast constexpr const_cast reinterpret_cast dynamic_cast switch template throw typeid unsigned void while"
    " addressof begin construct_at data destroy destroy_at empty end forward get hash make_pair make_tuple max min move"
    " size swap tie to_string".split()
)
# Each would be the better one, or make the call ambiguous.
DELETED = """
    template <class A, class... R> void NAME(A&&, R&&...) = delete;
    template <class A> void NAME(A) = delete;
    template <class A, class B> void NAME(A, B) = delete;
    template <class A, class B, class C> void NAME(A, B, C) = delete;
    template <class A, class B, class C, class D> void NAME(A, B, C, D) = delete;
"""


def called_names(root: pathlib.Path) -> list[str]:
    names = set()
    for layer in LAYERS:
        for header in sorted((root / layer / "include").rglob("*.hpp")):
            names.update(CALL.findall(common.code_only(header.read_text(encoding="utf-8"))))
    return sorted(name for name in names - OTHERS if not name.startswith("__") and not name.endswith("_"))


def find_problems(root: pathlib.Path) -> list[str]:
    if not (root / SOURCE).exists():
        return [f"{SOURCE} is gone"] if (root / "api/include").exists() else []
    names = called_names(root)
    with tempfile.TemporaryDirectory() as directory:
        deleted = pathlib.Path(directory) / "deleted.hpp"
        body = "".join(DELETED.replace("NAME", name) for name in names)
        deleted.write_text(f"namespace user {{\n{body}}}\n", encoding="utf-8")
        places = [f"-I{root / layer / 'include'}" for layer in common.LAYERS]
        command = ["g++", "-std=c++20", "-fsyntax-only", *places, "-include", str(deleted), str(root / SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return [line.replace(f"{root}/", "") for line in errors] or ([done.stderr] if done.returncode else [])


HEADER = "api/include/a.hpp"
USE = "#include <a.hpp>\nnamespace user {\nstruct Type {};\n}\nvoid use() { lib::call(user::Type{}); }\n"
LIBRARY = "namespace lib {\ntemplate <class T> void help(const T&) {}\n%s\n}\n"
CHECK = common.Check(
    "user_names",
    find_problems,
    [
        Case(
            "a call that names its namespace",
            {HEADER: LIBRARY % "template <class T> void call(const T& t) { lib::help(t); }", SOURCE: USE},
        ),
        Case(
            "a call that does not",
            {HEADER: LIBRARY % "template <class T> void call(const T& t) { help(t); }", SOURCE: USE},
            "help",
        ),
        Case("no source", {HEADER: ""}, "is gone"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
