"""A guest of QEMU with Linux' rdma_rxe, which is a RoCE device in the kernel, behind a tap of this network namespace.

The guest's kernel is Debian's, from its package, which is not installed. Its programs are this machine's, by 9p.
"""

import glob
import gzip
import hashlib
import lzma
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time

HOST, GUEST, NETWORK, TAP = "10.99.0.1", "10.99.0.2", "24", "tap0"
SHELL_PORT = 5000
# In the order in which they can be loaded, each with what it depends on before.
MODULES = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "crc32_generic", "rdma_rxe", "ib_uverbs",
           "ifb", "sch_prio", "sch_ingress", "sch_netem", "cls_u32", "act_mirred")
PATIENCE = 90  # seconds; an idle machine boots in 5

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mkdir -p /proc /sys /dev /host
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module || echo "insmod $module failed"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose host /host || echo "9p failed"
for place in proc sys dev; do mount --bind /$place /host/$place; done
mount -t tmpfs tmp /host/tmp
ip link set lo up
ip link set eth0 up
ip addr add {guest}/{network} dev eth0
ulimit -l unlimited
until ping -c 1 -W 1 {host} > /dev/null; do :; done
chroot /host rdma link add rxe0 type rxe netdev eth0 || echo "rxe failed"
echo GUEST-READY
while true; do nc -l -p {port} -e /bin/sh; done
"""


class Unavailable(Exception):
    """The reason why there can be no guest here."""


def kernel_package():
    """That of Debian's present kernel."""
    known = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image\S+)", known.stdout)
    if found is None:
        raise Unavailable("apt knows no linux-image-amd64 (apt-get update)")
    return found.group(1)


def fetch(package, directory):
    fetched = subprocess.run(["apt-get", "-q", "download", package], cwd=directory, capture_output=True, text=True,
                             check=False)
    files = glob.glob(os.path.join(directory, "*.deb"))
    if not files:
        raise Unavailable(f"{package} cannot be fetched: {fetched.stderr.strip()[-200:]}")
    subprocess.run(["dpkg-deb", "-x", files[0], directory], check=True)


def uncompressed(image):
    """The kernel proper of a boot image, which QEMU starts without firmware: that saves 4 s."""
    with open(image, "rb") as file:
        data = file.read()
    for magic, unpack in ((b"\xfd7zXZ\0", lzma.LZMADecompressor), (b"\x1f\x8b\x08", None)):
        at = data.find(magic)
        if at >= 0:
            return unpack().decompress(data[at:]) if unpack else gzip.decompress(data[at:])
    raise Unavailable("the kernel is compressed in a way that is not known here")


def depends_of(module):
    with open(module, "rb") as file:
        found = re.search(rb"\0depends=([^\0]*)\0", file.read())
    return [name for name in found.group(1).decode().split(",") if name] if found else []


def modules_in_order(kernel):
    """Paths of MODULES and what they need. What is built into the kernel has no file."""
    files = {os.path.basename(path)[:-3].replace("-", "_"): path
             for path in glob.glob(f"{kernel}/lib/modules/*/kernel/**/*.ko", recursive=True)}
    order = []

    def add(name):
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        for other in depends_of(path):
            add(other)
        order.append(path)

    for name in MODULES:
        add(name)
    return order


def archive(entries):
    """A cpio archive in the format of the kernel ("newc"); entries are (name, mode, content)."""
    result = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        result += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        result += b"\0" * (-len(result) % 4) + content
        result += b"\0" * (-len(result) % 4)
    return bytes(result)


def make_initramfs(kernel, path):
    order = modules_in_order(kernel)
    directory, program = 0o40755, 0o100755
    entries = [(name, directory, b"") for name in ("bin", "sbin", "modules")]

    def content(file_path):
        with open(file_path, "rb") as file:
            return file.read()

    entries.append(("bin/busybox", program, content(shutil.which("busybox"))))
    entries += [("modules/" + os.path.basename(module), program, content(module)) for module in order]
    entries.append(("modules/order", program, " ".join(map(os.path.basename, order)).encode()))
    init = INIT.format(guest=GUEST, host=HOST, network=NETWORK, port=SHELL_PORT)
    entries.append(("init", program, init.encode()))
    with open(path, "wb") as file:
        file.write(archive(entries))


def prepare(cache):
    """Kernel and initramfs; made once for each kernel and recipe. 70 MB are fetched, 400 MB are there meanwhile, 80 MB stay."""
    for program in ("qemu-system-x86_64", "busybox", "ip", "rdma", "apt-get"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")
    package = kernel_package()
    recipe = hashlib.sha256(" ".join([*MODULES, INIT]).encode()).hexdigest()[:8]
    image, initramfs = os.path.join(cache, package + ".vmlinux"), os.path.join(cache, f"{package}.{recipe}.initramfs")
    if not os.path.exists(image) or not os.path.exists(initramfs):
        with tempfile.TemporaryDirectory(dir=cache) as directory:
            fetch(package, directory)
            make_initramfs(directory, initramfs + ".new")
            with open(image + ".new", "wb") as file:
                file.write(uncompressed(glob.glob(f"{directory}/boot/vmlinuz-*")[0]))
        os.rename(image + ".new", image)
        os.rename(initramfs + ".new", initramfs)
    return image, initramfs


class Guest:
    """Runs while the context is open; `run()` has it execute shell scripts."""

    def __init__(self, cache):
        self.image, self.initramfs = prepare(cache)
        self.process = None
        self.log = os.path.join(cache, "console")

    def __enter__(self):
        for command in ("ip link set lo up", f"ip tuntap add {TAP} mode tap", f"ip addr add {HOST}/{NETWORK} dev {TAP}",
                        f"ip link set {TAP} up"):
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Unavailable(f"{command}: {done.stderr.strip()}")
        command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "2",
                   "-m", "256", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "file:" + self.log,
                   "-kernel", self.image, "-initrd", self.initramfs, "-append", "console=ttyS0 quiet panic=-1",
                   "-netdev", f"tap,id=net,ifname={TAP},script=no,downscript=no",
                   "-device", "virtio-net-pci,netdev=net,romfile=",
                   "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        while "GUEST-READY" not in self.console():
            if self.process.poll() is not None:
                raise Unavailable(f"QEMU ended: {self.process.stderr.read().strip()[-300:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the guest is not ready: {self.console()[-2000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def console(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def start(self, *command, listens_at=None):
        """Begins a program of this machine in the guest; one after the other. If it is to listen, it does afterwards."""
        return GuestProgram(command, listens_at)

    def run(self, script):
        """Exit status and output."""
        return self.start("/bin/sh", "-c", shlex.quote(script)).end()


class GuestProgram:
    def __init__(self, command, port):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.socket = socket.create_connection((GUEST, SHELL_PORT), timeout=PATIENCE)
                break
            except OSError:  # the shell before is being left
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        script = f"chroot /host {' '.join(command)} > /out 2>&1 & "
        if port is not None:
            script += f"until grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6 || ! kill -0 $!; do :; done; echo LISTENS; "
        self.socket.sendall((script + "wait $!; code=$?; cat /out; echo EXIT-$code; exit\n").encode())
        self.output = b""
        if port is not None:
            self.read_until(rb"LISTENS\n")

    def read_until(self, pattern):
        while not re.search(pattern, self.output):
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                return None
            self.output += chunk
        return re.search(pattern, self.output)

    def end(self):
        """Exit status and output."""
        found = self.read_until(rb"EXIT-(\d+)\n")
        self.socket.close()
        return (int(found.group(1)) if found else -1), self.output.decode(errors="replace")
