"""The installed library as programs outside this tree use it. Arguments: build directory, source directory."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (os.path.abspath(argument) for argument in sys.argv[1:3])
PROGRAM = os.path.join(SOURCE, "tests/interop/install/outside.cpp")
SAYS = "first, last, and round\n"
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(outside CXX)
find_package(verbatim 0.1 REQUIRED)
add_executable(shared outside.cpp)
target_link_libraries(shared verbatim::verbatim)
add_executable(static outside.cpp)
target_link_libraries(static verbatim::static)
"""
MESON = """project('outside', 'cpp', default_options: ['cpp_std=c++20'])
verbatim = dependency('verbatim', fallback: 'verbatim', default_options: ['optimization=0', 'debug=false'])
executable('outside', 'outside.cpp', dependencies: verbatim)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise AssertionError("%s ended with %d:\n%s" % (" ".join(command), done.returncode, said))
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.prefix = os.path.join(cls.directory.name, "anywhere")
        staged = os.path.join(cls.directory.name, "staged")
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", staged)
        # The prefix that was configured: an installed tree may be moved.
        (include,) = (path for path, _, files in os.walk(staged) if path.endswith("/include"))
        shutil.move(os.path.dirname(include), cls.prefix)
        (cls.libraries,) = (path for path, _, files in os.walk(cls.prefix) if "libverbatim.a" in files)
        cls.environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(cls.libraries, "pkgconfig"),
                               CMAKE_PREFIX_PATH=cls.prefix)
        cls.environment.pop("LD_LIBRARY_PATH", None)

    def in_directory(self, name, **files):
        place = os.path.join(self.directory.name, name)
        os.mkdir(place)
        shutil.copy(PROGRAM, place)
        for file, text in files.items():
            with open(os.path.join(place, file), "w", encoding="utf-8") as stream:
                stream.write(text)
        return place

    def needed(self, program):
        return [line for line in run("readelf", "-d", program).splitlines() if "NEEDED" in line]

    def assert_shared(self, program, shared):
        self.assertEqual(any("libverbatim.so.0" in line for line in self.needed(program)), shared)

    def compile(self, package):
        program = os.path.join(self.directory.name, package)
        flags = run("pkg-config", "--cflags", "--libs", package, env=self.environment).split()
        self.assertIn(self.prefix + "/include", [os.path.normpath(flag[2:]) for flag in flags if flag.startswith("-I")])
        run("c++", "-std=c++20", PROGRAM, "-o", program, "-Wl,-rpath," + self.libraries, *flags)
        return program

    def test_pkg_config_links_the_shared_library(self):
        program = self.compile("verbatim")
        self.assert_shared(program, True)
        self.assertEqual(run(program, env=self.environment), SAYS)

    def test_pkg_config_links_the_static_library(self):
        program = self.compile("verbatim-static")
        self.assert_shared(program, False)
        self.assertEqual(run(program, env=self.environment), SAYS)

    def test_cmake_finds_both(self):
        place = self.in_directory("cmake", **{"CMakeLists.txt": CMAKE})
        run("cmake", "-S", place, "-B", place + "/build", env=self.environment)
        run("cmake", "--build", place + "/build", env=self.environment)
        for name in ("shared", "static"):
            program = os.path.join(place, "build", name)
            self.assert_shared(program, name == "shared")
            self.assertEqual(run(program, env=self.environment), SAYS)

    def test_meson_takes_the_tree_as_a_subproject(self):
        place = self.in_directory("meson", **{"meson.build": MESON})
        os.mkdir(place + "/subprojects")
        os.symlink(SOURCE, place + "/subprojects/verbatim")
        run("meson", "setup", place + "/build", place, "--buildtype=debug", "-Doptimization=0", "-Ddebug=false",
            "-Dverbatim:warning_level=0", "-Dunity=on", "-Dunity_size=8", env=dict(os.environ, CXX="clang++"))  # the faster one at -O0
        self.build_subproject(place + "/build")
        self.assertEqual(run(place + "/build/outside"), SAYS)

    def build_subproject(self, build):
        """All of it with VERBATIM_LONG. Else its own command links the program with the libraries of this build."""
        if "VERBATIM_LONG" in os.environ:
            run("ninja", "-C", build, "outside")
            return
        commands = run("ninja", "-C", build, "-t", "commands", "outside").splitlines()
        (compiling,) = (line for line in commands if line.endswith("outside.cpp") or "outside-unity0.cpp" in line.split()[-1])
        self.assertIn(" -o outside ", commands[-1])
        self.assertIn("subprojects/verbatim/core/libverbatim_core.a", commands[-1])
        linking = commands[-1].replace("subprojects/verbatim/", BUILD + "/")
        run("sh", "-c", compiling, cwd=build)
        run("sh", "-c", linking, cwd=build)

    def test_shared_library_exports_nothing_but_its_own_version(self):
        names = run("nm", "-DC", "--defined-only", os.path.join(self.libraries, "libverbatim.so.0")).splitlines()
        names = [line.split(maxsplit=2)[2] for line in names]
        strangers = [name for name in names if "verbatim::" not in name and name != "VERBATIM_0"]
        self.assertEqual(strangers, [])
        self.assertEqual([name for name in names if not name.endswith("VERBATIM_0")], [])

    def test_every_header_that_is_installed_compiles_alone(self):
        headers = [os.path.join(path, file) for path, _, files in os.walk(self.prefix + "/include/verbatim") for file in files]
        self.assertGreater(len(headers), 40)
        text = "".join('#include "%s"\n' % header for header in sorted(headers))
        flags = run("pkg-config", "--cflags", "verbatim", env=self.environment).split()
        run("c++", "-std=c++20", "-fsyntax-only", "-xc++", "-", *flags, input=text)

    def test_library_of_the_device_file_brings_no_other_libraries(self):
        found = self.needed(os.path.join(self.libraries, "libverbatim_uverbs.so"))
        self.assertEqual([line for line in found if "libstdc++" in line or "libfmt" in line], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
