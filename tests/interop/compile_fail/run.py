#!/usr/bin/env python3
"""Types that cannot be sent must stop compilation, with a sentence that says what to do.

Each file under cases/ starts with one or more lines `// expect: TEXT`; compiling it must fail and print every TEXT.
The line `// expect-ok` marks the control cases, which must compile. `// only: g++` limits a case to a compiler.

usage: run.py COMPILER [ARGUMENT...]
"""
import pathlib
import subprocess
import sys
import tempfile


def family_of(compiler):
    said = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    return "clang++" if b"clang" in said else "g++"


def precompile(directory, command, family):
    """The headers that all cases include, compiled once; returns the arguments by which a case finds them."""
    header = pathlib.Path(directory) / "objects.hpp"
    header.write_text("#include <verbatim/objects.hpp>\n")
    output = f"{header}.pch" if family == "clang++" else f"{header}.gch"
    subprocess.run(command + ["-std=c++20", "-x", "c++-header", str(header), "-o", output], check=True)
    return ["-include-pch", output] if family == "clang++" else ["-include", str(header)]


def check(case, command, family):
    lines = case.read_text().splitlines()
    only = [line.split("only:")[1].strip() for line in lines if line.startswith("// only:")]
    if only and family not in only:
        return None
    expected = [line.split("expect:")[1].strip() for line in lines if line.startswith("// expect:")]
    must_compile = "// expect-ok" in lines
    if not expected and not must_compile:
        return "it expects nothing"
    run = subprocess.run(command + ["-std=c++20", "-fsyntax-only", str(case)], capture_output=True, text=True)
    if must_compile:
        return "" if run.returncode == 0 else "it must compile, but:\n" + run.stderr
    if run.returncode == 0:
        return "it compiles"
    missing = [text for text in expected if text not in run.stderr]
    return "".join(f"the error does not say {text!r}\n" for text in missing) + (run.stderr if missing else "")


def main():
    command = sys.argv[1:]
    cases = sorted((pathlib.Path(__file__).parent / "cases").rglob("*.cpp"))
    print(f"1..{len(cases)}")
    family = family_of(command[0])
    with tempfile.TemporaryDirectory() as directory:
        command += precompile(directory, command, family)
        for number, case in enumerate(cases, 1):
            result = check(case, command, family)
            skip = " # SKIP not for this compiler" if result is None else ""
            print(f"{'ok' if not result else 'not ok'} {number} - {case.stem}{skip}")
            for line in (result or "").splitlines():
                print("# " + line)


if __name__ == "__main__":
    main()
