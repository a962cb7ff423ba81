"""The benchmark programs: finding them, listing what they offer, running one benchmark once.

A group is a directory `<group>` with a Google Benchmark program `bench_<group>`, whose benchmarks are named
`group/case/subject` and report user counters named as METRICS below. A program `bench_<group>_instructions
<case> <subject> <n>` beside it repeats one operation n times under callgrind; with `--list` it prints its
`<case> <subject>` pairs. Both may have variants for other machines, `bench_<group>_<machine>` and
`bench_<group>_instructions_<machine>`, which offer nothing where they cannot run. A pair that is listed with
`--count` behind it is one that valgrind does not understand: the program counts by itself, step by step.
"""

import json
import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass

# Metric -> True if more is better.
METRICS = {
    "instructions": False,
    "ns": False,
    "us_one_way": False,
    "us": False,
    "seconds": False,
    "cpu_percent": False,
    "ns_per_object": False,
    "msgs_per_s": True,
    "bytes_per_s": True,
    "connections_per_s": True,
    "kib": False,
    "ns_sender": False,
    "ns_receiver": False,
    "wire_bytes": False,
    "list_length": False,
}
SUBJECT = re.compile(r"floor|verbatim\.[\w.+-]+|(?!verbatim\b)[\w+-][\w.+-]*")
RUN_SECONDS = 600  # a benchmark that takes longer hangs
# The difference of two runs leaves out start-up; both are long enough to wrap every queue.
INSTRUCTION_RUNS = (3200, 6400)  # whole batches and lists
STEPPED_RUNS = (320, 640)  # a signal for every instruction takes its time


class BenchError(Exception):
    """Something to tell the user; the other benchmarks go on."""


@dataclass(frozen=True)
class Benchmark:
    program: pathlib.Path
    full_name: str  # with the suffixes that Google Benchmark adds, such as /real_time
    group: str
    case: str
    subject: str


def discover(directory: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """Group -> its program and that one's variants, for every group that was built."""
    groups = {}
    for path in sorted(directory.glob("*/")):
        program = path / f"bench_{path.name}"
        others = sorted(one for one in path.glob(f"{program.name}_*")
                        if one.is_file() and not one.name.startswith(f"{program.name}_instructions"))
        if program.is_file():
            groups[path.name] = [program, *others]
    return groups


def call(command: list[str]) -> str:
    """Standard output of a command that must succeed."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{' '.join(command)}: not done after {RUN_SECONDS} s") from error
    except OSError as error:
        raise BenchError(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise BenchError(f"{' '.join(command)}: ended with status {done.returncode}: {said}")
    return done.stdout


def parse_name(program: pathlib.Path, group: str, full_name: str) -> Benchmark:
    parts = full_name.split("/")
    if len(parts) < 3 or parts[0] != group or not SUBJECT.fullmatch(parts[2]):
        raise BenchError(
            f"{program}: benchmark '{full_name}' is not named {group}/<case>/<subject>, where the subject is"
            " verbatim.<variant>, a peer or floor")
    return Benchmark(program, full_name, *parts[:3])


def list_benchmarks(group: str, program: pathlib.Path, is_variant: bool = False) -> list[Benchmark]:
    """All benchmarks of a program, in its order, the subjects of a case together."""
    lines = call([str(program), "--benchmark_list_tests=true"]).split()
    found = [parse_name(program, group, line) for line in lines]
    if not found and not is_variant:
        raise BenchError(f"{program} offers no benchmark")
    keys = [(one.case, one.subject) for one in found]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise BenchError(f"{program}: more than one benchmark for {sorted(twice)}")
    cases = list(dict.fromkeys(one.case for one in found))
    return sorted(found, key=lambda one: cases.index(one.case))  # stable: subjects keep their order


def exactly(name: str) -> str:
    """A benchmark filter that matches `name` alone, in either of Google Benchmark's regex dialects."""
    return "^" + re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", name) + "$"


def run(benchmark: Benchmark, seconds: float) -> dict[str, float]:
    """One run of one benchmark in a process of its own: metric -> value."""
    with tempfile.TemporaryDirectory() as scratch:
        # A file, because programs may print other things on standard output.
        out = pathlib.Path(scratch) / "out.json"
        call([
            str(benchmark.program), f"--benchmark_filter={exactly(benchmark.full_name)}",
            f"--benchmark_min_time={seconds}", f"--benchmark_out={out}", "--benchmark_out_format=json"])
        text = out.read_text(encoding="utf-8") if out.exists() else ""
    return read_metrics(benchmark.full_name, text)


def read_metrics(name: str, text: str) -> dict[str, float]:
    """The counters of the one run in Google Benchmark's JSON."""
    runs = [one for one in json.loads(text)["benchmarks"] if one.get("run_type") != "aggregate"] if text else []
    if len(runs) != 1:
        raise BenchError(f"{name}: expected one result, got {len(runs)}")
    if runs[0].get("error_occurred"):
        raise BenchError(f"{name}: {runs[0].get('error_message', 'failed')}")
    metrics = {metric: float(runs[0][metric]) for metric in METRICS if metric in runs[0]}
    if not metrics:
        raise BenchError(f"{name}: reports none of the metrics {', '.join(METRICS)}")
    return metrics


def instruction_program(program: pathlib.Path, group: str) -> pathlib.Path | None:
    variant = program.name.removeprefix(f"bench_{group}")
    beside = program.with_name(f"bench_{group}_instructions{variant}")
    return beside if beside.is_file() else None


def list_instruction_pairs(program: pathlib.Path, benchmarks: list[Benchmark]) -> list[tuple[str, ...]]:
    """(case, subject) pairs whose instructions can be counted; with "--count" where the program does it itself."""
    try:
        pairs = [tuple(line.split()) for line in call([str(program), "--list"]).splitlines() if line.strip()]
    except BenchError:
        return [(one.case, one.subject) for one in benchmarks]
    if not all(len(pair) == 2 or pair[2:] == ("--count",) for pair in pairs):
        raise BenchError(f"{program} --list: expected lines of '<case> <subject>' or '<case> <subject> --count'")
    return pairs


def count_instructions(program: pathlib.Path, case: str, subject: str, itself: str = "") -> float:
    """Instructions of one operation: the totals of a long and a short run, subtracted."""
    runs = STEPPED_RUNS if itself else INSTRUCTION_RUNS
    total = stepped_total if itself else callgrind_total
    short, long = (total(program, case, subject, operations) for operations in runs)
    return (long - short) / (runs[1] - runs[0])


def stepped_total(program: pathlib.Path, case: str, subject: str, operations: int) -> int:
    said = call([str(program), "--count", case, subject, str(operations)]).strip()
    if not said.isdecimal():
        raise BenchError(f"{program} --count {case} {subject}: expected a number, got '{said}'")
    return int(said)


def callgrind_total(program: pathlib.Path, case: str, subject: str, operations: int) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "callgrind.out"
        call(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), case, subject,
              str(operations)])
        match = re.search(r"^(?:summary|totals): (\d+)", out.read_text() if out.exists() else "", re.MULTILINE)
    if not match:
        raise BenchError(f"{program} {case} {subject}: callgrind wrote no total")
    return int(match.group(1))
