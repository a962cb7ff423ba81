"""`verbatim doctor`: what it says of this machine, and of machines that are made of files. Argument: the program."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

VERBATIM = os.path.abspath(sys.argv[1])
ACTIVE, DOWN = "4: ACTIVE\n", "1: DOWN\n"
IPV4 = "0000:0000:0000:0000:0000:ffff:0a00:0007\n"
LINK_LOCAL = "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n"


class Doctor(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def write(self, path, text):
        path = os.path.join(self.directory.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def write_port(self, device, state, gids):
        port = "sys/class/infiniband/%s/ports/1/" % device
        self.write(port + "state", state)
        for index, gid in enumerate(gids):
            self.write(port + "gids/%d" % index, gid)
            self.write(port + "gid_attrs/types/%d" % index, "RoCE v2\n")

    def ask(self, *options):
        return subprocess.run((VERBATIM, "doctor") + options, capture_output=True, text=True, timeout=60, check=False)

    def report(self, *options):
        done = self.ask("--json", *options)
        return done.returncode, json.loads(done.stdout)

    def of_files(self):
        status, report = self.report("--root", self.directory.name)
        return status, {finding["name"]: finding for finding in report["findings"]}

    def test_every_finding_of_this_machine_has_a_state_a_reason_and_a_remedy(self):
        status, report = self.report()
        names = [finding["name"] for finding in report["findings"]]
        for name in ("hugepages", "memlock", "memory-files", "dev-shm", "userfaultfd", "ptrace", "isolation", "device", "reach",
                     "rdma-core", "dpdk"):
            self.assertIn(name, names)
        for finding in report["findings"]:
            with self.subTest(finding=finding["name"]):
                self.assertIn(finding["state"], ("ok", "limited", "missing"))
                self.assertTrue(finding["found"] and finding["why"])
                self.assertTrue(finding["state"] == "ok" or finding["remedy"])
        self.assertEqual(status, 0 if report["fast_works"] else 1 if report["default_works"] else 2)

    def test_cores_that_it_advises_to_isolate_are_there(self):
        remedy = {finding["name"]: finding for finding in self.report()[1]["findings"]}["isolation"]["remedy"]
        for core in re.findall(r"isolcpus=(\d+),(\d+)", remedy):
            self.assertLess(max(map(int, core)), os.cpu_count())

    def test_people_read_the_same(self):
        text = self.ask("--root", self.directory.name).stdout
        self.assertRegex(text, r"missing +device +no RDMA device\n +why: .*\n +run: sudo modprobe mlx5_ib")
        self.assertIn("the software NIC works; the fast path, an RDMA device, does not work", text)

    def test_a_machine_without_a_device_has_the_default_path_only(self):
        status, findings = self.of_files()
        self.assertEqual(status, 1)
        self.assertEqual(findings["device"]["state"], "missing")

    def test_limits_of_a_device_are_named_with_the_setting_that_mends_them(self):
        self.write_port("mlx5_0", ACTIVE, (IPV4,))
        self.write("sys/class/infiniband/mlx5_0/device/net/eth7/mtu", "1500\n")
        drivers = os.path.join(self.directory.name, "sys/class/infiniband/mlx5_0/device/driver")
        os.symlink("../../bus/pci/drivers/irdma", drivers)
        _, findings = self.of_files()
        self.assertEqual((findings["mtu"]["state"], findings["data-order"]["state"]), ("limited", "limited"))
        self.assertIn("ip link set eth7 mtu 9000", findings["mtu"]["remedy"])
        self.assertIn("irdma", findings["data-order"]["found"])
        self.assertIn("assume_in_order = true", findings["data-order"]["remedy"])
        os.unlink(drivers)
        os.symlink("../../bus/pci/drivers/mlx5_core", drivers)
        self.write("sys/class/infiniband/mlx5_0/device/net/eth7/mtu", "9000\n")
        _, findings = self.of_files()
        self.assertEqual((findings["mtu"]["state"], findings["data-order"]["state"]), ("ok", "ok"))

    def test_an_active_port_has_the_gid_that_reaches_furthest(self):
        self.write_port("mlx5_0", ACTIVE, (LINK_LOCAL, IPV4))
        status, findings = self.of_files()
        self.assertEqual(status, 0)
        self.assertIn("mlx5_0 port 1 is active; GID index 1: " + IPV4.strip(), findings["device"]["found"])

    def test_a_port_that_is_down_and_one_without_an_address_are_told_apart(self):
        self.write_port("mlx5_0", DOWN, (IPV4,))
        status, findings = self.of_files()
        self.assertEqual((status, findings["device"]["state"]), (1, "missing"))
        self.assertIn("is down (1: DOWN)", findings["device"]["found"])
        self.write_port("mlx5_0", ACTIVE, ("0000:" * 7 + "0000\n",))
        self.assertIn("has no GID", self.of_files()[1]["device"]["found"])

    def test_one_port_that_works_is_enough(self):
        self.write_port("mlx5_0", DOWN, ())
        self.write_port("mlx5_1", ACTIVE, (IPV4,))
        self.assertEqual(self.of_files()[0], 0)

    def test_huge_pages_are_counted_and_the_remedy_says_how_many(self):
        pool = "sys/kernel/mm/hugepages/hugepages-2048kB/"
        self.write(pool + "nr_hugepages", "100\n")
        self.write(pool + "free_hugepages", "12\n")
        finding = self.of_files()[1]["hugepages"]
        self.assertEqual((finding["state"], finding["remedy"]), ("limited", "sudo sysctl -w vm.nr_hugepages=600"))
        self.write(pool + "free_hugepages", "512\n")
        self.assertEqual(self.of_files()[1]["hugepages"]["state"], "ok")

    def test_yamas_scope_is_read(self):
        self.write("proc/sys/kernel/yama/ptrace_scope", "1\n")
        finding = self.of_files()[1]["ptrace"]
        self.assertEqual((finding["state"], finding["remedy"]), ("limited", "sudo sysctl -w kernel.yama.ptrace_scope=0"))

    def test_isolated_cores_are_named(self):
        self.write("sys/devices/system/cpu/isolated", "2-3\n")
        self.assertEqual(self.of_files()[1]["isolation"]["found"], "cores 2-3")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
