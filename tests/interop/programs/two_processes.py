"""Unmodified programs on the software NIC, server and client as two processes of this machine."""
import ctypes
import glob
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

PATIENCE = 60


def some(cases):
    """With VERBATIM_LONG all of these runs of one kind, else every second one: most of a run is the program's own start."""
    return cases if "VERBATIM_LONG" in os.environ else cases[::2]


def shared_memory():
    """But for the directory of telemetry, which any program of this user may make meanwhile."""
    return set(glob.glob("/dev/shm/*")) - {"/dev/shm/verbatim-%d" % os.geteuid()}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def listens(port):
    """Whether somebody listens there, asked without connecting: the tools take one caller only."""
    wanted = ":%04X" % int(port)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            if any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in lines.readlines()[1:]):
                return True
    return False


def forbid_attach():
    """For a new process: cross-memory attach is refused, as containers do without CAP_SYS_PTRACE."""
    instructions = (
        (0x20, 0, 0, 0),  # load the number of the system call
        (0x15, 1, 0, 310),  # process_vm_readv
        (0x15, 0, 1, 311),  # process_vm_writev
        (0x06, 0, 0, 0x00050001),  # EPERM
        (0x06, 0, 0, 0x7fff0000),  # allowed
    )
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(buffer)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_rights, set_filter, filters = 38, 22, 2
    if libc.prctl(no_new_rights, 1, 0, 0, 0) != 0 or libc.prctl(set_filter, filters, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter")


class TwoProcesses(unittest.TestCase):
    """Programs with the library preloaded, which leave nothing behind."""
    library = None  # set by the test's main part
    variables = {}  # more environment
    prepare = None  # called in each new process
    port_options = ("-p", "-p")  # of server and client

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.environment = dict(os.environ, LD_PRELOAD=self.library, TMPDIR=self.directory.name,
                                **self.variables)

    def start(self, *command):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.environment, preexec_fn=type(self).prepare)

    def finish(self, process):
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            self.fail("no end: %s\n%s" % (process.args, out))
        self.assertEqual(process.returncode, 0, "%s\n%s" % (process.args, out))
        return out

    def both(self, tool, *options):
        """Server and client of one tool; both must end well and leave nothing behind."""
        if shutil.which(tool) is None:
            self.skipTest(tool + " is not installed")
        before = shared_memory()
        port = free_port()
        server = self.start(tool, self.port_options[0], port, *options)
        deadline = time.monotonic() + PATIENCE
        while not listens(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        client = self.start(tool, self.port_options[1], port, *options, "127.0.0.1")
        out = self.finish(client)
        self.finish(server)
        self.assertEqual(shared_memory() - before, set())
        self.assertEqual(os.listdir(self.directory.name), [])
        return out
