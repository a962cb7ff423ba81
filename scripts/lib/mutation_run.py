"""Builds and runs test programs in a copy of the tree, with one fault at a time put into it."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass

from driver_mutations import Mutation

STARTED = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\S+) \(|^\[  FAILED  \] (\S+), where .* \(\d+ ms\)$", re.MULTILINE)
PASSED = re.compile(r"^\[  PASSED  \] [1-9]\d* tests?\.", re.MULTILINE)
RUN_SECONDS = 60  # the slowest program takes a few
BUILD_SECONDS = 1200


class MutationError(Exception):
    """The experiment itself went wrong: nothing is known about the tests."""


@dataclass
class Verdict:
    """What became of one mutation."""

    caught: bool
    text: str  # the test that caught it, or why nothing did


@dataclass
class Outcome:
    """What one test program did. `test`: the first that failed, or that ran when the program died."""

    result: str  # passed, failed, crashed, hung
    test: str = ""


def read_outcome(output: str, status: int | None) -> Outcome:
    """`status`: the program's exit status, None when it was stopped for its time. A test that failed counts, whatever
    happened to the program later."""
    failed = FAILED.search(output)
    if failed:
        return Outcome("failed", failed.group(1) or failed.group(2))
    if status == 0 and PASSED.search(output):
        return Outcome("passed")
    started = STARTED.findall(output)
    if status is None:
        return Outcome("hung", started[-1] if started else "")
    return Outcome("crashed", started[-1] if started else "")


def mutate(text: str, mutation: Mutation) -> str:
    """The file with the fault. MutationError where the file no longer has the text that the mutation is about."""
    result = text
    for old, new in mutation.edits:
        for version in (text, result):
            if version.count(old) != 1:
                raise MutationError(
                    f"{mutation.name}: {mutation.file} has {version.count(old)} times, not once, the text {old!r}; "
                    "give the mutation (scripts/lib/driver_mutations.py) the text that is there now")
        result = result.replace(old, new)
    return result


def stop_group(process: subprocess.Popen) -> None:
    """Ends a process and its children, which are a group of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Workshop:
    """A copy of the tree with a build directory of its own. The tree that was copied is only read."""

    def __init__(self, root: pathlib.Path, keep: bool = False) -> None:
        self.root = root
        self.keep = keep
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="verbatim-mutations."))
        self.tree = self.directory / "tree"
        self.build = self.directory / "build"

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(self, *_) -> None:
        if self.keep:
            print(f"kept: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def configure(self) -> None:
        """-O1: tests see the same driver, and compile three times as fast. Warnings that a mutation causes are not
        errors: the compiler is not the test."""
        ignored = shutil.ignore_patterns(".git", "build", "build-*", "__pycache__")
        shutil.copytree(self.root, self.tree, ignore=ignored, symlinks=True)
        self.step(["meson", "setup", str(self.build), str(self.tree), "-Dbench=disabled", "-Doptimization=1",
                   "-Dwerror=false"])

    def step(self, command: list[str]) -> None:
        """Runs a tool. MutationError with the end of its output when it fails or takes too long."""
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired as expired:
            raise MutationError(f"{command[0]} took more than {BUILD_SECONDS} s") from expired
        finally:
            stop_group(process)
        if process.returncode:
            raise MutationError(f"'{' '.join(command)}' failed:\n" + "\n".join(output.splitlines()[-30:]))

    def compile(self, program: str) -> None:
        self.step(["ninja", "-C", str(self.build), program])

    def run(self, program: str) -> Outcome:
        """Runs a test program up to its first failure."""
        process = subprocess.Popen(
            [str(self.build / program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, errors="replace", start_new_session=True, cwd=self.directory,
            env={**os.environ, "GTEST_FAIL_FAST": "1", "GTEST_COLOR": "no"})
        status = None
        try:
            output, _ = process.communicate(timeout=RUN_SECONDS)
            status = process.returncode
        except subprocess.TimeoutExpired:
            stop_group(process)
            output, _ = process.communicate()
        finally:
            stop_group(process)
        return read_outcome(output, status)

    def check_unmutated(self, programs: list[str]) -> None:
        """MutationError where a program fails as it is: then its failing later would say nothing."""
        for program in programs:
            self.compile(program)
            outcome = self.run(program)
            if outcome.result != "passed":
                raise MutationError(f"{program} {outcome.result} without any mutation {outcome.test}")

    def try_mutation(self, mutation: Mutation, programs: list[str]) -> Verdict:
        """Runs the programs one after the other, the mutation's own first, until one notices the fault."""
        path = self.tree / mutation.file
        original = path.read_text(encoding="utf-8")
        path.write_text(mutate(original, mutation), encoding="utf-8")
        try:
            for program in sorted(programs, key=lambda one: pathlib.Path(one).name != mutation.program):
                self.compile(program)
                outcome = self.run(program)
                if outcome.result != "passed":
                    suffix = {"failed": "", "crashed": " (crash)", "hung": " (hang)"}[outcome.result]
                    return Verdict(True, f"{pathlib.Path(program).name}: {outcome.test}{suffix}")
        except MutationError as error:
            return Verdict(False, str(error))
        finally:
            path.write_text(original, encoding="utf-8")
        return Verdict(False, "no test failed")
