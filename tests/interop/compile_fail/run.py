#!/usr/bin/env python3
"""Types that cannot be sent must stop compilation, with a sentence that says what to do.

Each file under cases/ starts with one or more lines `// expect: TEXT`; compiling it must fail and print every TEXT.
The line `// expect-ok` marks the control cases, which must compile. `// only: g++` limits a case to a compiler.

usage: run.py COMPILER [ARGUMENT...]
"""
import pathlib
import subprocess
import sys


def check(case, command):
    lines = case.read_text().splitlines()
    only = [line.split("only:")[1].strip() for line in lines if line.startswith("// only:")]
    family = "clang++" if b"clang" in subprocess.run(
        [command[0], "--version"], capture_output=True, check=True).stdout else "g++"
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
    for number, case in enumerate(cases, 1):
        result = check(case, command)
        skip = " # SKIP not for this compiler" if result is None else ""
        print(f"{'ok' if not result else 'not ok'} {number} - {case.stem}{skip}")
        for line in (result or "").splitlines():
            print("# " + line)


if __name__ == "__main__":
    main()
