"""perftest and UCX, server and client pinned to a core each: how they are started and what their tables say."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field

BUILD = pathlib.Path(__file__).resolve().parents[2]
VERBATIM = BUILD / "apps" / "cli" / "verbatim"
PATIENCE = 60  # seconds for a tool that takes one or two
MEBIBYTE = 2**20  # what both call MB


class ToolError(Exception):
    """A tool that did not run, or said something else than a result."""


@dataclass(frozen=True)
class Tool:
    command: tuple[str, ...]  # client and server
    client_only: tuple[str, ...]  # options
    metric: str
    read: object  # function: the client's output -> value
    software_nic: bool = True
    variables: dict[str, str] = field(default_factory=dict)


def row_after(header: str, column: int):
    """Reads a number of perftest's row below the line that holds `header`."""
    def read(out: str) -> float:
        lines = out.splitlines()
        places = [number for number, line in enumerate(lines) if header in line]
        return float(lines[places[0] + 1].split()[column])
    return read


def ucx_final(column: int):
    def read(out: str) -> float:
        return float(re.search(r"^Final:\s+(.+)$", out, re.MULTILINE).group(1).split()[column])
    return read


def mebibytes(read):
    return lambda out: read(out) * MEBIBYTE


def perftest(tool: str, size: int, metric: str, read, **variables: str) -> Tool:
    # -F: whatever the machine does with its frequency. They need a GID.
    return Tool((tool, "-x", "0", "-F", "-s", str(size), "-n", "20000"), (), metric, read, variables=variables)


def ucx(test: str, size: int, count: int, metric: str, read, **variables: str) -> Tool:
    device = "mlx5_0:1" if "rc_" in variables["UCX_TLS"] else None
    settings = {**variables, "UCX_WARN_UNUSED_ENV_VARS": "n", **({"UCX_NET_DEVICES": device} if device else {})}
    client = ("-t", test, "-s", str(size), "-n", str(count), "-w", str(count // 10))
    return Tool(("ucx_perftest",), client, metric, read, device is not None, settings)


LATENCY = row_after("t_typical", 4)
BANDWIDTH = mebibytes(row_after("BW average", 3))
TAG, PUT = ucx_final(1), mebibytes(ucx_final(5))  # typical half of a round trip, in microseconds; overall
SHARED = "posix,sysv,cma"
TOOLS = {
    "send_8/verbatim.ib_send_lat": perftest("ib_send_lat", 8, "us_one_way", LATENCY),
    "write_8/verbatim.ib_write_lat": perftest("ib_write_lat", 8, "us_one_way", LATENCY),
    "write_8/verbatim.ib_write_lat_share": perftest("ib_write_lat", 8, "us_one_way", LATENCY,
                                                    VERBATIM_SOFTNIC_SHARE="1"),
    "read_8/verbatim.ib_read_lat": perftest("ib_read_lat", 8, "us", LATENCY),
    "read_8/verbatim.ib_read_lat_share": perftest("ib_read_lat", 8, "us", LATENCY, VERBATIM_SOFTNIC_SHARE="1"),
    "tag_8/verbatim.rc_verbs": ucx("tag_lat", 8, 20000, "us_one_way", TAG, UCX_TLS="rc_v"),
    "tag_8/verbatim.rc_mlx5": ucx("tag_lat", 8, 5000, "us_one_way", TAG, UCX_TLS="rc_x"),
    "tag_8/verbatim.rc_mlx5_nap": ucx("tag_lat", 8, 5000, "us_one_way", TAG, UCX_TLS="rc_x",
                                      VERBATIM_SOFTNIC_DOORBELLS="nap"),
    "tag_8/ucx_shared_memory": ucx("tag_lat", 8, 20000, "us_one_way", TAG, UCX_TLS=SHARED),
    "tag_8/ucx_tcp": ucx("tag_lat", 8, 20000, "us_one_way", TAG, UCX_TLS="tcp"),
    "write_64k/verbatim.ib_write_bw": perftest("ib_write_bw", 65536, "bytes_per_s", BANDWIDTH),
    "write_64k/verbatim.ib_write_bw_share": perftest("ib_write_bw", 65536, "bytes_per_s", BANDWIDTH,
                                                     VERBATIM_SOFTNIC_SHARE="1"),
    "write_64k/verbatim.ucx_rc_verbs": ucx("ucp_put_bw", 65536, 20000, "bytes_per_s", PUT, UCX_TLS="rc_v"),
    "write_64k/ucx_shared_memory": ucx("ucp_put_bw", 65536, 20000, "bytes_per_s", PUT, UCX_TLS=SHARED),
    "write_64k/ucx_tcp": ucx("ucp_put_bw", 65536, 5000, "bytes_per_s", PUT, UCX_TLS="tcp"),
}


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def listens(port: str) -> bool:
    """Asked without connecting: the tools take one caller only."""
    wanted = f":{int(port):04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        rows = [line.split() for line in pathlib.Path(table).read_text(encoding="ascii").splitlines()[1:]]
        if any(row[1].endswith(wanted) and row[3] == "0A" for row in rows):
            return True
    return False


def start(tool: Tool, core: int, *options: str) -> subprocess.Popen:
    launcher = (str(VERBATIM), "softnic", "run", "--") if tool.software_nic else ()
    try:
        # A session of its own, so that whatever the launcher started can be ended with it.
        return subprocess.Popen(
            (*launcher, *tool.command, *options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, **tool.variables}, start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    except OSError as error:
        raise ToolError(f"{error.filename or tool.command[0]}: {error.strerror}") from error


def end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finish(process: subprocess.Popen, deadline: float) -> str:
    try:
        out, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{' '.join(process.args)}: not done after {PATIENCE} s") from error
    if process.returncode != 0:
        said = " / ".join(out.strip().splitlines()[-3:])
        raise ToolError(f"{' '.join(process.args)}: ended with status {process.returncode}: {said}")
    return out


def run(tool: Tool) -> dict[str, float]:
    """Metric -> value, by the client. Throws ToolError."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise ToolError("this benchmark needs two cores")
    deadline, port = time.monotonic() + PATIENCE, free_port()
    server = start(tool, cores[0], "-p", port)
    client = None
    try:
        while not listens(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        client = start(tool, cores[1], "-p", port, *tool.client_only, "127.0.0.1")
        out = finish(client, deadline)
        finish(server, deadline)
    finally:
        for process in filter(None, (client, server)):
            end(process)
    try:
        return {tool.metric: tool.read(out)}
    except (AttributeError, IndexError, ValueError) as error:
        raise ToolError(f"{tool.command[0]}: no result in its output: {out[-300:]}") from error
