#!/usr/bin/env python3
"""Group `softnic`: unmodified programs on the software NIC, beside what else connects two processes of one machine.

Understands the options of a Google Benchmark program, as scripts/bench gives them. What the tools do not measure does
`softnic_probe`, which lies beside this program and is run for those names.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import tools  # noqa: E402

PROBE = pathlib.Path(__file__).resolve().with_name("softnic_probe")


def options() -> dict[str, str]:
    given = dict(argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:])
    unknown = [name for name in given if not name.startswith("benchmark_")]
    if unknown:
        sys.exit(f"bench_softnic: unknown option --{unknown[0]}; it takes those of Google Benchmark")
    return given


def list_all() -> int:
    for name in tools.TOOLS:
        print(f"softnic/{name}")
    sys.stdout.flush()
    return subprocess.run([PROBE, "--benchmark_list_tests=true"], check=False).returncode


def result_of(name: str) -> dict:
    result = {"name": f"softnic/{name}", "run_type": "iteration"}
    try:
        return {**result, **tools.run(tools.TOOLS[name])}
    except tools.ToolError as error:
        return {**result, "error_occurred": True, "error_message": str(error)}


def main() -> int:
    given = options()
    if given.get("benchmark_list_tests") == "true":
        return list_all()
    wanted = given.get("benchmark_filter", "")
    names = [name for name in tools.TOOLS if re.search(wanted, f"softnic/{name}")]
    if not names:
        os.execv(PROBE, [PROBE, *sys.argv[1:]])
    results = {"benchmarks": [result_of(name) for name in names]}
    if "benchmark_out" in given:
        pathlib.Path(given["benchmark_out"]).write_text(json.dumps(results), encoding="utf-8")
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
