"""Runs benchmark groups interleaved and prints one table. scripts/bench is the way to start it.

Each pass goes through the cases; in each case every subject runs once, one after the other (A B C, then A B C
again in the next pass), so that a slow minute of the machine hits all subjects alike.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True
import bench_table  # noqa: E402
from bench_programs import (  # noqa: E402
    BenchError, Benchmark, count_instructions, discover, instruction_program, list_benchmarks, list_instruction_pairs,
    run)
from bench_results import Key, Results  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", nargs="*", help="groups to run (default: all): post, ring, graph, ...")
    parser.add_argument("--quick", action="store_true", help="2 short passes instead of 5")
    parser.add_argument("--passes", type=int, help="another number of passes")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="build directory")
    arguments = parser.parse_args()
    if arguments.passes is None:
        arguments.passes = 2 if arguments.quick else 5
    if arguments.passes < 1:
        parser.error("--passes: at least 1")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json: {arguments.json.absolute().parent} is not a directory")
    return arguments


def choose_groups(build: pathlib.Path, wanted: list[str]) -> dict[str, list[pathlib.Path]]:
    known = discover(build / "bench")
    if not known:
        sys.exit(f"bench: no benchmark programs under {build / 'bench'}; build them with scripts/build")
    unknown = [group for group in wanted if group not in known]
    if unknown:
        sys.exit(f"bench: unknown group {', '.join(unknown)}; known: {', '.join(known)}")
    return {group: known[group] for group in dict.fromkeys(wanted)} if wanted else known


class Session:
    """One run of the script: collects values, remembers what went wrong, goes on with the rest."""

    def __init__(self, passes: int, quick: bool) -> None:
        self.passes = passes
        self.quick = quick
        self.results = Results()
        self.problems: list[str] = []

    def attempt(self, action, *arguments):
        """The action's result, or None when it failed; each problem is told once."""
        try:
            return action(*arguments)
        except BenchError as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))
                print(f"bench: {error}", file=sys.stderr)
            return None

    def add(self, benchmark_key: tuple[str, str, str], number: int, metrics: dict[str, float]) -> None:
        for metric, value in metrics.items():
            self.results.add(Key(*benchmark_key, metric), number, value)

    def run_passes(self, benchmarks: list[Benchmark]) -> None:
        for number in range(1, self.passes + 1):
            print(f"pass {number} of {self.passes}: {len(benchmarks)} benchmarks", file=sys.stderr, flush=True)
            for one in benchmarks:
                metrics = self.attempt(run, one, 0.05 if self.quick else 0.2)
                if metrics is None:
                    self.results.add_failure(one.group, one.case, one.subject)
                self.add((one.group, one.case, one.subject), number, metrics or {})

    def list_group(self, group: str, programs: list[pathlib.Path]) -> list[Benchmark]:
        """Of the program and its variants, which offer nothing on another machine than theirs."""
        found = []
        for number, program in enumerate(programs):
            found += self.attempt(list_benchmarks, group, program, number > 0) or []
        return found

    def count_group(self, group: str, program: pathlib.Path, benchmarks: list[Benchmark]) -> None:
        """Instruction counts hardly vary: two passes show it, one is enough for a quick run."""
        counter = instruction_program(program, group)
        if counter is None:
            return
        pairs = self.attempt(list_instruction_pairs, counter, benchmarks) or []
        print(f"counting instructions of {len(pairs)} {group} operations", file=sys.stderr, flush=True)
        for number in range(1, 2 if self.quick else 3):
            for pair in pairs:
                count = self.attempt(count_instructions, counter, *pair)
                if count is not None:
                    self.add((group, *pair[:2]), number, {"instructions": count})


def write_rows(path: pathlib.Path, rows: list[dict]) -> None:
    """Whole or not at all: readers never see half a file."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)


def main() -> int:
    arguments = parse_arguments()
    programs = choose_groups(arguments.build, arguments.group)
    session = Session(arguments.passes, arguments.quick)
    load_before = bench_table.load()
    listed = {group: session.list_group(group, variants) for group, variants in programs.items()}
    session.run_passes([one for benchmarks in listed.values() for one in benchmarks])
    for group, variants in programs.items():
        for program in variants:
            session.count_group(group, program, [one for one in listed[group] if one.program == program])

    print(bench_table.machine(arguments.build))
    print(f"load      {load_before} before, {bench_table.load()} after")
    print(f"passes    {arguments.passes}, subjects of a case alternating\n")
    for table in (bench_table.main_table(session.results), bench_table.peer_table(session.results)):
        if table:
            print(table + "\n")
    print(bench_table.LEGEND)
    for variants in programs.values():
        print(bench_table.targets(variants[0].parent), end="")
    print(bench_table.not_measured())
    if arguments.json:
        write_rows(arguments.json, session.results.rows())
    for problem in session.problems:
        print(f"FAILED {problem}")
    return 1 if session.problems or not session.results.samples else 0


if __name__ == "__main__":
    sys.exit(main())
