"""What the checks share: walking the tree, and a main() with which each check proves that it can fail."""

import argparse
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LAYERS = ("drivers", "core", "api", "apps")  # from the bottom up
CPP_SUFFIXES = (".hpp", ".cpp", ".h", ".cc")


@dataclass
class Case:
    """A small tree, and what the check must say about it (None: nothing)."""

    name: str
    files: dict[str, str]
    expect: str | None = None


@dataclass
class Check:
    name: str
    find_problems: Callable[[pathlib.Path], list[str]]
    cases: list[Case] = field(default_factory=list)


def files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Every file of the tree in a fixed order, without build directories, git and caches."""
    for path in sorted(root.iterdir()):
        if path.is_dir():
            skip = path.name in (".git", "__pycache__", "build") or path.name.startswith("build-")
            if not skip and not (path / "meson-private").exists():
                yield from files(path)
        elif not path.is_symlink():
            yield path


def cpp_files(root: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in files(root) if path.suffix in CPP_SUFFIXES]


def is_script(path: pathlib.Path, interpreter: str) -> bool:
    """True if the file's first line hands it to `interpreter`."""
    with path.open("rb") as stream:
        first = stream.readline(80)
    return first.startswith(b"#!") and interpreter.encode() in first


def code_only(text: str, keep_strings: bool = False) -> str:
    """C++ text with comments (and string contents) blanked; line numbers stay."""

    def blank(match: re.Match) -> str:
        token = match.group(0)
        if token.startswith(('"', "'")):
            return token if keep_strings else token[0] * 2
        return "\n" * token.count("\n") or " "

    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL)


def self_test(check: Check) -> list[str]:
    """Runs the check on its own cases; returns what it got wrong."""
    wrong = []
    for case in check.cases:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name, text in case.files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            problems = check.find_problems(root)
        if case.expect is None and problems:
            wrong.append(f"{case.name}: expected no problem, got {problems}")
        if case.expect is not None and not any(case.expect in problem for problem in problems):
            wrong.append(f"{case.name}: expected a problem with '{case.expect}', got {problems}")
    if not any(case.expect for case in check.cases):
        wrong.append("no case shows that this check can fail")
    return wrong


def main(check: Check, description: str | None) -> int:
    """Command line of one check: its self-test, then the tree."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="only prove that the check can fail")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2], help="tree to check")
    arguments = parser.parse_args()
    problems = [f"self-test: {text}" for text in self_test(check)]
    if not arguments.self_test:
        problems += check.find_problems(arguments.root.resolve())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit("common.py is used by the checks beside it")
