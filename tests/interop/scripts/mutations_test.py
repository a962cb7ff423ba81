"""scripts/mutations: the table fits the tree, and only a test that fails catches a mutation. Stand-ins for meson and
ninja; the test program is a script."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).parents[3]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts/lib"))
import mutation_run  # noqa: E402
from driver_mutations import MUTATIONS, PROGRAMS, Mutation  # noqa: E402
from mutation_run import MutationError, Workshop, mutate, read_outcome  # noqa: E402

# `meson setup BUILD TREE` remembers TREE; `ninja -C BUILD PROGRAM` makes TREE/program.sh that program.
MESON = '#!/bin/bash\nmkdir -p "$2"\necho "$3" >"$2/tree"\n'
NINJA = """#!/bin/bash
tree=$(cat "$2/tree")
! grep -qs "does not compile" "$tree/driver" || { echo "x.cpp:1: error: no"; exit 1; }
mkdir -p "$2/$(dirname "$3")"
(echo "#!/bin/bash"; echo "cd $tree"; cat "$tree/program.sh") >"$2/$3"
chmod +x "$2/$3"
"""
RUN, OK, FAILED = "[ RUN      ] Suite.test\n", "[       OK ] Suite.test (0 ms)\n", "[  FAILED  ] Suite.test (0 ms)\n"
PASSED = "[  PASSED  ] 1 test.\n"
PROGRAM = f"""
printf '{RUN.strip()}\\n'
case "$(cat driver)" in
    good*) printf '{PASSED.strip()}\\n' ;;
    wrong*) printf '{FAILED.strip()}\\n'; exit 1 ;;
    dies*) kill -SEGV $$ ;;
    hangs*) sleep 1000 ;;
esac
"""


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = pathlib.Path(scratch.name)
        self.tree = self.state / "tree"
        self.tree.mkdir()
        (self.state / "bin").mkdir()
        for name, text in (("meson", MESON), ("ninja", NINJA)):
            (self.state / "bin" / name).write_text(text)
            (self.state / "bin" / name).chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{self.state / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(self.state)}


class Table(unittest.TestCase):
    def test_every_mutation_fits_the_tree_and_changes_it(self):
        for mutation in MUTATIONS:
            text = (ROOT / mutation.file).read_text(encoding="utf-8")
            self.assertNotEqual(mutate(text, mutation), text, mutation.name)
            self.assertIn(mutation.program, [pathlib.Path(program).name for program in PROGRAMS])

    def test_names_and_edits_are_different(self):
        self.assertEqual(len({mutation.name for mutation in MUTATIONS}), len(MUTATIONS))
        self.assertEqual(len({(mutation.file, mutation.edits) for mutation in MUTATIONS}), len(MUTATIONS))
        self.assertGreaterEqual(len(MUTATIONS), 14)

    def test_an_edit_that_is_absent_or_ambiguous_is_an_error(self):
        for text in ("b", "a a"):
            with self.assertRaises(MutationError):
                mutate(text, Mutation("name", "", "file", (("a", "c"),)))


class Outcomes(unittest.TestCase):
    def test_what_a_program_did(self):
        for output, status, result in (
                (RUN + OK + PASSED, 0, "passed"), (RUN + FAILED, 1, "failed"), (RUN + FAILED, None, "failed"),
                (RUN, -11, "crashed"), (RUN, None, "hung"), (RUN + OK + PASSED, 1, "crashed"), ("", 0, "crashed"),
                ("[  PASSED  ] 0 tests.\n", 0, "crashed")):
            self.assertEqual(read_outcome(output, status).result, result, output)

    def test_the_first_test_that_failed_is_named(self):
        output = "[  FAILED  ] Sizes/A.b/2, where GetParam() = 4 (1 ms)\n" + FAILED
        self.assertEqual(read_outcome(output, 1).test, "Sizes/A.b/2")


class Verdicts(Scratch):
    def setUp(self):
        super().setUp()
        (self.tree / "driver").write_text("good\n")
        (self.tree / "program.sh").write_text(PROGRAM)
        for patch in (mock.patch.dict(os.environ, self.environment), mock.patch.object(mutation_run, "RUN_SECONDS", 1),
                      mock.patch.object(tempfile, "tempdir", str(self.state))):
            patch.start()
            self.addCleanup(patch.stop)

    def verdict(self, replacement):
        with Workshop(self.tree) as workshop:
            workshop.configure()
            workshop.check_unmutated(["tests/program"])
            return workshop.try_mutation(Mutation("name", "", "driver", (("good", replacement),)), ["tests/program"])

    def test_only_a_test_that_fails_catches_a_mutation(self):
        for replacement, caught, text in (
                ("wrong", True, "program: Suite.test"), ("dies", True, "program: Suite.test (crash)"),
                ("hangs", True, "program: Suite.test (hang)"), ("good, but not the same", False, "no test failed"),
                ("does not compile", False, "x.cpp:1: error: no")):
            verdict = self.verdict(replacement)
            self.assertEqual(verdict.caught, caught, replacement)
            self.assertTrue(verdict.text.endswith(text), verdict.text)

    def test_a_program_that_fails_unmutated_ends_the_experiment(self):
        (self.tree / "driver").write_text("wrong\n")
        with self.assertRaises(MutationError):
            self.verdict("good")

    def test_the_tree_is_left_as_it_was_and_the_copy_removed(self):
        self.verdict("wrong")
        self.assertEqual((self.tree / "driver").read_text(), "good\n")
        self.assertEqual(list(self.state.glob("verbatim-mutations.*")), [])


class Script(Scratch):
    NAME = "half_never_toggled"

    def run_script(self, program):
        for name in ("scripts", "drivers"):
            shutil.copytree(ROOT / name, self.tree / name, dirs_exist_ok=True)
        (self.tree / "program.sh").write_text(program)
        return subprocess.run(
            [str(self.tree / "scripts/mutations"), "--only", self.NAME, "--append", str(self.state / "results")],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def test_a_caught_mutation_passes(self):
        done = self.run_script(
            f"grep -rq 'bell.half ^= bell.toggle' drivers && printf '{PASSED.strip()}\\n' || printf '{FAILED.strip()}\\n'\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "1 mutations, 1 caught"), done.stderr)
        self.assertEqual((self.state / "results").read_text(), "1 0 0 mutations\n")

    def test_a_survivor_fails_and_is_named(self):
        done = self.run_script(f"printf '{PASSED.strip()}\\n'\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "1 mutations, 0 caught"), done.stderr)
        self.assertIn(f"FAILED mutations: {self.NAME}", done.stdout)
        self.assertEqual((self.state / "results").read_text(), "0 1 0 mutations\n")

    def test_an_experiment_that_went_wrong_fails(self):
        done = self.run_script("exit 1\n")
        self.assertEqual(done.returncode, 1)
        self.assertEqual((self.state / "results").read_text(), "0 1 0 mutations\n")


if __name__ == "__main__":
    unittest.main()
