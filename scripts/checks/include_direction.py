#!/usr/bin/env python3
"""Layers include downwards only: apps -> api -> core -> drivers (tests and bench may include anything).

Inside drivers, mlx5 knows none of the devices that feed it, and the devices do not know each other (verbs serves rdma;
softqueue, the device's side of a queue, serves the software NIC and verbs). Public
headers of core, and everything in api, do not name mlx5: applications see one library, whatever the device.

Folders are components: no two of them include each other, directly or by way of others.
"""

import os
import pathlib
import re
import sys
from collections.abc import Iterator

import common
from common import LAYERS, Case

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE)
# Components of drivers -> components they must not include.
SEPARATE = {
    "mlx5": {"softqueue", "softnic", "rdma", "uverbs", "verbs", "rdmacm", "preload"},
    "softqueue": {"softnic", "rdma", "uverbs", "verbs", "rdmacm", "preload"},
    "softnic": {"rdma", "uverbs", "verbs", "rdmacm", "preload"},
    "verbs": {"softnic", "rdma", "uverbs", "rdmacm", "preload"},
    "rdma": {"softqueue", "softnic", "uverbs", "rdmacm", "preload"},
    "uverbs": {"rdma", "verbs", "rdmacm", "preload"},
    "rdmacm": {"rdma", "verbs", "preload"},
    "preload": {"rdma", "verbs"},
}


def layer_of(path: pathlib.PurePath) -> str | None:
    return path.parts[0] if path.parts and path.parts[0] in LAYERS else None


def component_of(path: pathlib.PurePath) -> str | None:
    """'mlx5' for drivers/mlx5/x.cpp and drivers/include/verbatim/mlx5/x.hpp."""
    if layer_of(path) != "drivers":
        return None
    return next((part for part in path.parts[1:-1] if part in SEPARATE), None)


def target_of(root: pathlib.Path, source: pathlib.Path, name: str, quoted: bool) -> pathlib.PurePath | None:
    """The file of this tree that an include means, relative to the root; None: not ours."""
    places = [root / layer / "include" for layer in LAYERS]
    if quoted:
        places = [source.parent, root, *(root / layer for layer in LAYERS), *places]
    for place in places:
        path = place / name
        if path.is_file():
            return pathlib.PurePath(os.path.relpath(os.path.normpath(path), root))
    return None


def judge(source: pathlib.PurePath, target: pathlib.PurePath) -> str | None:
    """Why `source` may not include `target`, or None."""
    own, other = layer_of(source), layer_of(target)
    if other is None:
        return f"'{own}' includes {target}, which belongs to no layer" if target.parts[0] != own else None
    if LAYERS.index(other) > LAYERS.index(own):
        return f"'{own}' includes upwards: {target} belongs to '{other}'"
    if component_of(target) in SEPARATE.get(component_of(source), ()):
        return f"{component_of(source)} must not know {component_of(target)}: {target}"
    if other != own and "include" not in target.parts:
        return f"'{own}' includes {target}, which is private to '{other}'"
    return None


def includes(root: pathlib.Path, path: pathlib.Path) -> Iterator[tuple[int, str, pathlib.PurePath | None]]:
    """Line, name and file (None: not ours) of each include."""
    text = common.code_only(path.read_text(encoding="utf-8"), keep_strings=True)
    for match in INCLUDE.finditer(text):
        name = match.group(1) or match.group(2)
        target = target_of(root, path, name, quoted=match.group(2) is not None)
        yield text.count(chr(10), 0, match.start()) + 1, name, target


def include_problems(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    source = pathlib.PurePath(path.relative_to(root))
    problems = []
    for line, name, target in includes(root, path):
        if target is not None:
            reason = judge(source, target)
        else:
            reason = f"no public header {name}" if name.startswith("verbatim/") else None
        if reason:
            problems.append(f"{source}:{line}: {reason}")
    return problems


def reachable(graph: dict[str, dict[str, str]], start: str) -> set[str]:
    """Folders that `start` includes, directly or by way of others."""
    found, waiting = set(), [start]
    while waiting:
        fresh = graph.get(waiting.pop(), {}).keys() - found
        found |= fresh
        waiting += fresh
    return found


def cycle_problems(root: pathlib.Path, paths: list[pathlib.Path]) -> list[str]:
    """Includes between folders that reach each other."""
    graph: dict[str, dict[str, str]] = {}
    for path in paths:
        source = pathlib.PurePath(path.relative_to(root))
        for line, _, target in includes(root, path):
            if target is not None and target.parent != source.parent:
                graph.setdefault(str(source.parent), {}).setdefault(str(target.parent), f"{source}:{line}: {target}")
    return [
        f"{where} lies in {other}, which includes {folder}, too"
        for folder, others in graph.items()
        for other, where in others.items()
        if folder in reachable(graph, other)
    ]


def naming_problems(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    source = path.relative_to(root)
    hidden = source.parts[0] == "api" or (source.parts[0] == "core" and "include" in source.parts)
    if not hidden:
        return []
    lines = common.code_only(path.read_text(encoding="utf-8")).splitlines()
    return [
        f"{source}:{number}: names mlx5, which only drivers (and core's private files) may"
        for number, line in enumerate(lines, 1)
        if "mlx5" in line.lower()
    ]


def find_problems(root: pathlib.Path) -> list[str]:
    ours = [path for path in common.cpp_files(root) if layer_of(path.relative_to(root))]
    problems = cycle_problems(root, ours)
    for path in ours:
        problems += include_problems(root, path) + naming_problems(root, path)
    return problems


CORE = "core/include/verbatim/core/arena.hpp"
DEVICE = "drivers/include/verbatim/driver/device.hpp"
ENGINE = "drivers/softnic/engine.hpp"
CHECK = common.Check(
    "include_direction",
    find_problems,
    [
        Case("downwards is fine", {DEVICE: "", CORE: "#include <verbatim/driver/device.hpp>\n"}),
        Case("upwards", {CORE: "", DEVICE: "// x\n#include <verbatim/core/arena.hpp>\n"}, "device.hpp:2: 'drivers' incl"),
        Case("upwards by quotes", {CORE: "", "drivers/a.cpp": f'#include "../{CORE}"\n'}, "includes upwards"),
        Case("private of another layer", {ENGINE: "", "core/a.cpp": '#include "../drivers/softnic/engine.hpp"\n'},
             "private to 'drivers'"),
        Case("a device in the data path", {ENGINE: "", "drivers/mlx5/a.cpp": '#include "../softnic/engine.hpp"\n'},
             "mlx5 must not know softnic"),
        Case("folders in a circle", {"core/a/a.hpp": '#include "../b/b.hpp"\n', "core/b/b.hpp": '#include "../c/c.hpp"\n',
                                     "core/c/c.hpp": "", "core/c/d.cpp": '#include "../a/a.hpp"\n'},
             "core/c/d.cpp:1: core/a/a.hpp lies in core/a, which includes core/c, too"),
        Case("folders one above the other", {"core/a/a.hpp": '#include "../b/b.hpp"\n', "core/b/b.hpp": "",
                                             "core/b/c.hpp": '#include "b.hpp"\n'}),
        Case("no such header", {CORE: "#include <verbatim/core/none.hpp>\n"}, "no public header"),
        Case("mlx5 in a public header", {CORE: "void f(mlx5::Opcode);\n"}, "names mlx5"),
        Case("mlx5 in a comment or in core's own files", {CORE: "// mlx5\n", "core/src/a.cpp": "mlx5::Opcode o;\n"}),
        Case("tests may include anything", {ENGINE: "", "tests/a.cpp": '#include "../drivers/softnic/engine.hpp"\n'}),
    ],
)

if __name__ == "__main__":
    sys.exit(common.main(CHECK, __doc__))
