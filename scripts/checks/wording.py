#!/usr/bin/env python3
"""Plain sentences: no "whoever", no sentence whose subject is "who", one word for each idea (docs/glossary.md).

The first sentence of a public header names the thing: at most 25 words, and none that begins with "what" or "who".
No sentence of README.md and docs/ is longer either; code, tables and headings are not looked at.
"""

import pathlib
import re
import sys
from collections.abc import Iterator

import common
from common import Case

MAX_WORDS = 25
TEXT_SUFFIXES = (*common.CPP_SUFFIXES, ".md", ".py", ".build", ".toml")
# Replaced words -> the glossary's.
REPLACED = {
    r"whoever": "the thing's own noun",
    r"work queue elements?": "work queue entry",
    r"completion queue elements?": "completion queue entry",
    r"scatter[- ]gather entr(?:y|ies)": "scatter/gather element",
    r"rendez-vous": "rendezvous",
    r"memory key table": "key table",
}
PATTERNS = {re.compile(rf"\b{word}\b", re.IGNORECASE): instead for word, instead in REPLACED.items()}
WHO = re.compile(r"(?:^|(?<=[.:;] )|(?<=// ))Who [a-z][^.?]*[.:]")
CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])[)*\"]*\s+")
QUESTION_FIRST = re.compile(r"(?:who|what|whoever)\b", re.IGNORECASE)


def is_public(path: pathlib.PurePath) -> bool:
    return path.suffix == ".hpp" and "include" in path.parts and path.parts[0] in common.LAYERS


def first_sentence(text: str) -> str:
    """Of the comment that a header begins with."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return re.split(r"(?<=[.!?])\s", " ".join(lines))[0]


def header_problem(text: str) -> str | None:
    sentence = first_sentence(text)
    words = len(sentence.split())
    if words > MAX_WORDS:
        return f"the first sentence has {words} words, at most {MAX_WORDS}"
    if QUESTION_FIRST.match(sentence):
        return f"the first sentence does not name the thing: '{sentence[:40]}'"
    return None


def is_page(path: pathlib.PurePath) -> bool:
    return str(path) == "README.md" or (path.suffix == ".md" and path.parts[0] == "docs")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items of a page, each with the number of its first line."""
    text = CODE.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    first, lines, in_list = 0, [], False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        item = ITEM.match(line)
        no_prose = not line.strip() or line.lstrip().startswith(("|", "#"))
        if lines and (item or no_prose):
            yield first, " ".join(lines)
            lines = []
        in_list = bool(item) or (in_list and (not line or line[0] == " "))
        if no_prose or (line.startswith("    ") and not lines and not in_list):
            continue
        first = first if lines else number
        lines.append(line[item.end() :] if item else line.strip())


def sentence_problems(name: pathlib.PurePath, text: str) -> list[str]:
    """A piece of code counts as one word, a link as its text."""
    problems = []
    for number, paragraph in paragraphs(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "`code`", paragraph))
        for sentence in SENTENCE_END.split(plain):
            words = len(sentence.split())
            if words > MAX_WORDS:
                problems.append(f"{name}:{number}: a sentence of {words} words, at most {MAX_WORDS}: '{sentence[:40]}'")
    return problems


def line_problems(name: pathlib.PurePath, text: str) -> list[str]:
    described = is_public(name) or name.suffix == ".md"
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in PATTERNS.items():
            if found := pattern.search(line):
                problems.append(f"{name}:{number}: '{found.group(0)}': say '{instead}'")
        if described and WHO.search(line):
            problems.append(f"{name}:{number}: 'Who' is no subject")
    return problems


def find_problems(root: pathlib.Path) -> list[str]:
    problems = []
    for path in common.files(root):
        name = pathlib.PurePath(path.relative_to(root))
        if path.suffix not in TEXT_SUFFIXES or name.name == "wording.py":
            continue
        text = path.read_text(encoding="utf-8")
        problems += line_problems(name, text)
        if is_page(name):
            problems += sentence_problems(name, text)
        if is_public(name) and (problem := header_problem(text)):
            problems.append(f"{name}: {problem}")
    return problems


HEADER = "core/include/verbatim/core/a.hpp"
LONG = "word " * 26
CHECK = common.Check(
    "wording",
    find_problems,
    [
        Case("plain", {HEADER: "// An arena of memory files. Threads: any.\n", "docs/a.md": "An arena grows.\n"}),
        Case("a person for a thing", {"core/src/a.cpp": "// Held by whoever posts.\n"}, "core/src/a.cpp:1: 'whoever'"),
        Case("a replaced word", {"docs/a.md": "A work queue element.\n"}, "say 'work queue entry'"),
        Case("who as subject", {"docs/a.md": "It rings. Who arms sleeps.\n"}, "'Who' is no subject"),
        Case("a question", {"docs/a.md": "Who arms?\n"}),
        Case("a long first sentence", {HEADER: f"// {LONG}.\n"}, "the first sentence has"),
        Case("a long sentence", {"docs/a.md": f"An arena grows.\nIt {LONG}.\n"}, "docs/a.md:1: a sentence of 28 words"),
        Case("a long item", {"README.md": f"# A\n\n- one.\n- {LONG}\n"}, "README.md:4: a sentence of 26 words"),
        Case("sentences over lines", {"docs/a.md": f"{LONG[:100]}\nword. {LONG[:100]}\n- {LONG[:100]}\n  word.\n"}),
        Case("a long link and code", {"docs/a.md": f"[an arena](a?{LONG.replace(' ', '-')}) `{LONG}` grows.\n"}),
        Case("code, table, heading", {"docs/a.md": f"# {LONG}\n\n    {LONG}\n\n```\n{LONG}\n```\n\n| {LONG} |\n"}),
        Case("another page", {"CHANGELOG.md": f"{LONG}\n"}),
        Case("no name of the thing", {HEADER: "// What a peer says.\n"}, "does not name the thing"),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
