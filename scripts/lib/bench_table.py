"""What scripts/bench prints: the machine, one table, Verbatim beside its peers, and what was not measured."""

import os
import pathlib
import platform
import re
import subprocess

from bench_results import Ratio, Results

HEADER = ("case", "metric", "subject", "best", "median", "x floor, best", "x floor, median")
PEER_HEADER = ("case", "metric", "Verbatim", "peer", "times faster, best", "times faster, median")
NUMBER_COLUMNS = {"best", "median", "x floor, best", "x floor, median", "times faster, best", "times faster, median"}
LEGEND = (
    "x floor: how many times slower than the floor of the same pass (1.00 is the floor itself).\n"
    "Ratios compare runs of one pass, where every subject of a case ran right after the other; best and median\n"
    "are over the passes. Absolute numbers of different minutes are not comparable on a shared machine.")


def number_text(value: float) -> str:
    """Four significant digits, whole numbers with separators."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 3 - len(str(int(abs(value))))) if abs(value) >= 1 else 3
    return f"{value:.{digits + (1 if abs(value) < 100 else 0)}f}"


def ratio_texts(ratio: Ratio | None) -> list[str]:
    return [f"{ratio.best:.2f}", f"{ratio.median:.2f}"] if ratio else ["-", "-"]


def aligned(header: tuple[str, ...], blocks: list[list[list[str]]]) -> str:
    """Columns padded to one width over all blocks, an empty line between blocks."""
    rows = [row for block in blocks for row in block]
    widths = [max(len(row[column]) for row in [list(header), *rows]) for column in range(len(header))]

    def line(row: list[str] | tuple[str, ...]) -> str:
        cells = [
            cell.rjust(width) if name in NUMBER_COLUMNS else cell.ljust(width)
            for cell, width, name in zip(row, widths, header)
        ]
        return "  ".join(cells).rstrip()

    rule = "-" * len(line([" " * (width - 1) + "." for width in widths]))
    body = "\n\n".join("\n".join(line(row) for row in block) for block in blocks)
    return "\n".join([line(header), rule, body])


def blocks_by_case(rows: list[list[str]]) -> list[list[list[str]]]:
    blocks: dict[str, list[list[str]]] = {}
    for row in rows:
        blocks.setdefault(row[0], []).append(row)
    return list(blocks.values())


def main_table(results: Results) -> str:
    rows = []
    for key in results.keys():
        numbers = [number_text(results.best(key)), number_text(results.median(key))]
        floor = ratio_texts(results.slower(key, key.of("floor")))
        rows.append([f"{key.group}/{key.case}", key.metric, key.subject, *numbers, *floor])
    # Nobody is to take a subject that failed for one that does not exist.
    for (group, case, subject), times in results.failures.items():
        rows.append([f"{group}/{case}", "FAILED", subject, f"{times} times", "-", "-", "-"])
    return aligned(HEADER, blocks_by_case(rows))


def peer_table(results: Results) -> str:
    """Each Verbatim variant beside each peer; empty without peers."""
    rows = []
    keys = results.keys()
    for key in keys:
        if not key.subject.startswith("verbatim."):
            continue
        for other in keys:
            is_peer = other.subject != "floor" and not other.subject.startswith("verbatim.")
            if is_peer and other.of(key.subject) == key:
                ratio = ratio_texts(results.faster(key, other))
                rows.append([f"{key.group}/{key.case}", key.metric, key.subject, other.subject, *ratio])
    return aligned(PEER_HEADER, blocks_by_case(rows)) if rows else ""


def first_match(path: str, pattern: str) -> str:
    """Group 1 of the pattern's first match in a file of the kernel, or 'unknown'."""
    try:
        match = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match.group(1).strip() if match else "unknown"


def compiler(build: pathlib.Path) -> str:
    """Compiler and build type of a directory that scripts/build made."""
    options = build / "verbatim-options"
    name = options.read_text(encoding="utf-8").split()[0] if options.exists() else "g++"
    try:
        version = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return name
    return f"{version.splitlines()[0]}, release build, baseline x86-64" if version else name


def machine(build: pathlib.Path) -> str:
    """What a reader needs to know to judge the numbers."""
    cpu = first_match("/proc/cpuinfo", r"^model name\s*:\s*(.+)$")
    megahertz = first_match("/proc/cpuinfo", r"^cpu MHz\s*:\s*(\d+)")
    huge = first_match("/proc/meminfo", r"^HugePages_Total:\s*(\d+)")
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    gigabytes = f"{int(memory) / 2**20:.0f} GiB" if memory.isdigit() else memory
    return (
        f"CPU       {cpu} ({megahertz} MHz), {len(os.sched_getaffinity(0))} usable of {os.cpu_count()} logical\n"
        f"memory    {gigabytes}, {huge} huge pages reserved\n"
        f"kernel    {platform.system()} {platform.release()}\n"
        f"compiler  {compiler(build)}")


def load() -> str:
    return "{:.2f} (1 min), {:.2f} (5 min)".format(*os.getloadavg()[:2])


def targets(group: pathlib.Path) -> str:
    """What was asked for, as the group says it; nothing is checked against it."""
    text = group / "targets.txt"
    return text.read_text(encoding="utf-8") if text.is_file() else ""


def not_measured() -> str:
    devices = sorted(path.name for path in pathlib.Path("/sys/class/infiniband").glob("*"))
    here = f"RDMA devices here ({', '.join(devices)}) were not used" if devices else "there is none in this machine"
    return (
        f"Not measured: a ConnectX ({here}). All devices above are the software NIC in ordinary memory, so the cost\n"
        "of uncached register stores over PCIe, of the NIC's own processing and of the wire is not in these numbers.")
