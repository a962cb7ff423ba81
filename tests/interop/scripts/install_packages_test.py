"""scripts/install-packages, against stand-ins for dpkg-query, apt-get, id and sudo that record their calls."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "install-packages"
# Installed packages are lines of $STATE/installed, as dpkg-query prints them.
DPKG_QUERY = """#!/bin/bash
shift 3
status=0
for package in "$@"; do
    if grep -q "^$package " "$STATE/installed"; then grep "^$package " "$STATE/installed"; else status=1; fi
done
exit $status
"""
APT_GET = """#!/bin/bash
echo "$*" >>"$STATE/calls"
[ "${*: -1}" != update ] || exit "${UPDATE_STATUS:-0}"
[ -z "${INSTALL_BROKEN:-}" ] || { echo 'E: Unable to locate package'; exit 100; }
while [ "$1" != --no-install-recommends ]; do shift; done
shift
for package in "$@"; do echo "$package installed" >>"$STATE/installed"; done
"""
ID = '#!/bin/bash\necho "$USER_ID"\n'
SUDO = '#!/bin/bash\n[ "$1" != -n ] || shift\necho "sudo $1" >>"$STATE/calls"\nexec "$@"\n'


class InstallPackages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = pathlib.Path(scratch.name)
        self.bin = self.state / "bin"
        self.bin.mkdir()
        for name in "bash readlink dirname sed grep mktemp env tail rm cat true".split():
            (self.bin / name).symlink_to(next(p for p in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(p)))
        for name, text in {"dpkg-query": DPKG_QUERY, "apt-get": APT_GET, "id": ID}.items():
            self.program(name, text)
        (self.state / "packages.txt").write_text("# all\nfirst  # a reason\n\nsecond\nthird-dev # another\n")

    def program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run_script(self, installed, user_id=0, **more):
        (self.state / "installed").write_text("".join(f"{line}\n" for line in installed))
        environment = {
            "PATH": str(self.bin), "STATE": str(self.state), "USER_ID": str(user_id), "TMPDIR": str(self.state),
            "VERBATIM_PACKAGES": str(self.state / "packages.txt"), **more}
        return subprocess.run(
            ["/bin/bash", str(SCRIPT)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False)

    def calls(self):
        path = self.state / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def test_does_nothing_when_nothing_is_missing(self):
        done = self.run_script(["first installed", "second installed", "third-dev installed"])
        self.assertEqual((done.returncode, done.stdout, done.stderr, self.calls()), (0, "", "", []))

    def test_installs_only_what_is_missing(self):
        done = self.run_script(["first installed", "second config-files"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.calls()), 2)
        self.assertTrue(self.calls()[0].endswith(" update"))
        self.assertTrue(self.calls()[1].endswith(" install --no-install-recommends second third-dev"))

    def test_goes_on_when_the_update_fails(self):
        done = self.run_script([], UPDATE_STATUS="100")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("apt-get update failed", done.stderr)

    def test_says_what_apt_said_when_the_installation_fails(self):
        done = self.run_script(["first installed"], INSTALL_BROKEN="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Unable to locate package", done.stderr)
        self.assertIn("could not install: second third-dev", done.stderr)

    def test_uses_sudo_when_not_root(self):
        self.program("sudo", SUDO)
        done = self.run_script(["first installed", "second installed"], user_id=1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sudo env", self.calls())

    def test_says_the_command_when_there_is_neither_root_nor_sudo(self):
        done = self.run_script(["first installed", "third-dev installed"], user_id=1000)
        self.assertEqual((done.returncode, self.calls()), (1, []))
        self.assertIn("apt-get install -y --no-install-recommends second", done.stderr)

    def test_says_the_command_when_sudo_wants_a_password(self):
        self.program("sudo", "#!/bin/bash\nexit 1\n")
        done = self.run_script([], user_id=1000)
        self.assertEqual((done.returncode, self.calls()), (1, []))
        self.assertIn("wants a password", done.stderr)

    def test_refuses_other_systems(self):
        (self.bin / "dpkg-query").unlink()
        done = self.run_script([])
        self.assertEqual(done.returncode, 1)
        self.assertIn("not a Debian system", done.stderr)

    def test_the_real_list_gives_a_reason_for_each_package_once(self):
        lines = (SCRIPT.parent / "packages.txt").read_text().splitlines()
        packages = [line.partition("#") for line in lines if line.strip() and not line.startswith("#")]
        self.assertGreater(len(packages), 20)
        self.assertTrue(all(reason.strip() for _, _, reason in packages))
        names = [name.strip() for name, _, _ in packages]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
