"""The benchmark programs: finding them, listing what they offer, running one benchmark once.

A group is a directory `<group>` with a Google Benchmark program `bench_<group>`, whose benchmarks are named
`group/case/subject` and report user counters named as METRICS below. A program `bench_<group>_instructions
<case> <subject> <n>` beside it repeats one operation n times under callgrind; with `--list` it prints its
`<case> <subject>` pairs.
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
    "ns_per_object": False,
    "msgs_per_s": True,
    "bytes_per_s": True,
}
SUBJECT = re.compile(r"floor|verbatim\.[\w.+-]+|(?!verbatim\b)[\w+-][\w.+-]*")
RUN_SECONDS = 600  # a benchmark that takes longer hangs
# The difference of two runs leaves out start-up; both are long enough to wrap every queue.
INSTRUCTION_RUNS = (3200, 6400)  # whole batches and lists


class BenchError(Exception):
    """Something to tell the user; the other benchmarks go on."""


@dataclass(frozen=True)
class Benchmark:
    program: pathlib.Path
    full_name: str  # with the suffixes that Google Benchmark adds, such as /real_time
    group: str
    case: str
    subject: str


def discover(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """Group -> program, for every group that was built."""
    programs = (path / f"bench_{path.name}" for path in sorted(directory.glob("*/")))
    return {program.parent.name: program for program in programs if program.is_file()}


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


def list_benchmarks(group: str, program: pathlib.Path) -> list[Benchmark]:
    """All benchmarks of a program, in its order, the subjects of a case together."""
    lines = call([str(program), "--benchmark_list_tests=true"]).split()
    found = [parse_name(program, group, line) for line in lines]
    if not found:
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


def instruction_program(program: pathlib.Path) -> pathlib.Path | None:
    beside = program.with_name(program.name + "_instructions")
    return beside if beside.is_file() else None


def list_instruction_pairs(program: pathlib.Path, benchmarks: list[Benchmark]) -> list[tuple[str, str]]:
    """(case, subject) pairs whose instructions can be counted."""
    try:
        pairs = [tuple(line.split()) for line in call([str(program), "--list"]).splitlines() if line.strip()]
    except BenchError:
        return [(one.case, one.subject) for one in benchmarks]
    if not all(len(pair) == 2 for pair in pairs):
        raise BenchError(f"{program} --list: expected lines of '<case> <subject>'")
    return pairs


def count_instructions(program: pathlib.Path, case: str, subject: str) -> float:
    """Instructions of one operation: callgrind's totals of a long and a short run, subtracted."""
    totals = []
    for operations in INSTRUCTION_RUNS:
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / "callgrind.out"
            call(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), case, subject,
                  str(operations)])
            match = re.search(r"^(?:summary|totals): (\d+)", out.read_text() if out.exists() else "", re.MULTILINE)
        if not match:
            raise BenchError(f"{program} {case} {subject}: callgrind wrote no total")
        totals.append(int(match.group(1)))
    return (totals[1] - totals[0]) / (INSTRUCTION_RUNS[1] - INSTRUCTION_RUNS[0])
