"""`verbatim stat` and `verbatim top`: exact counts of two processes. Arguments: the program, the peer's program."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

VERBATIM, PEER = (os.path.abspath(argument) for argument in sys.argv[1:3])
PATIENCE = 60
MESSAGES, BYTES = 1234, 48

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)$')


class Stat(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        os.chmod(self.directory.name, 0o700)
        config = os.path.join(self.directory.name, "verbatim.toml")
        self.segments = os.path.join(self.directory.name, "segments")
        with open(config, "w", encoding="ascii") as file:
            file.write('[device]\nkind = "softnic"\n[telemetry]\nhistograms = true\ndirectory = "%s"\n' % self.segments)
        self.environment = dict(os.environ, VERBATIM_CONFIG=config)

    def start(self, *arguments):
        process = subprocess.Popen((PEER,) + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        return process

    def stat(self, *options, command="stat", code=0):
        done = subprocess.run((VERBATIM, command, "--directory", self.segments) + options, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def processes(self):
        return {one["pid"]: one for one in json.loads(self.stat("--json"))["processes"]}

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.02)
        self.fail(what)

    def pair(self):
        """Both processes, once the receiver has told of all messages and both sleep."""
        server = self.start("serve")
        client = self.start("ask", server.stdout.readline().strip(), str(MESSAGES), str(BYTES))

        def told():
            found = self.processes()
            counts = found.get(server.pid, {}).get("connections", [])
            sent = found.get(client.pid, {}).get("connections", [])
            return counts and sent and counts[0]["messages_received"] >= MESSAGES and \
                sent[0]["messages_sent"] >= MESSAGES
        self.until(told, "the counts do not come")
        return server, client

    def test_counts_are_exact_while_both_run(self):
        server, client = self.pair()
        found = self.processes()
        (received,), (sent,) = found[server.pid]["connections"], found[client.pid]["connections"]
        self.assertEqual((received["messages_received"], received["bytes_received"]), (MESSAGES, MESSAGES * BYTES))
        self.assertEqual((sent["messages_sent"], sent["bytes_sent"]), (MESSAGES, MESSAGES * BYTES))
        self.assertEqual([(c["channel"], c["messages"]) for c in received["channels"]], [(1, MESSAGES), ("other", 0)])
        self.assertEqual((sent["requests_failed"], sent["transport"]), (0, "shm"))
        self.assertAlmostEqual(sent["wire_overhead"], (BYTES + 16) / BYTES, delta=0.05)
        (handler,) = (h for h in found[server.pid]["histograms"] if h["of"] == 1)
        self.assertEqual(handler["count"], MESSAGES)
        self.assertEqual([one["runs"] for one in found.values()], [True, True])
        self.assertEqual(len(found[server.pid]["arenas"]), 2)

    def test_a_table_and_one_process_alone(self):
        server, client = self.pair()
        text = self.stat()
        self.assertIn("process %d (telemetry_peer)\n" % server.pid, text)
        self.assertRegex(text, r"(?m)^  1 +127\.0\.0\.1:\d+ +shm +%d " % MESSAGES)
        alone = self.stat(str(client.pid))
        self.assertNotIn("process %d " % server.pid, alone)
        self.assertEqual(self.stat("1", code=1), "")
        self.assertEqual(json.loads(self.stat("--json", "1", code=1))["processes"], [])

    def test_a_process_that_is_none_is_named(self):
        other = os.getpid()
        done = subprocess.run((VERBATIM, "stat", "--directory", self.segments, str(other)), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("process %d is" % other, done.stderr)

    def test_an_unknown_subcommand_is_named(self):
        done = subprocess.run((VERBATIM, "sta"), capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("'sta'", done.stderr)

    def test_prometheus_text_is_well_formed(self):
        _, client = self.pair()
        text = self.stat("--prometheus")
        self.assertTrue(text.endswith("\n"))
        types, samples = {}, []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                self.assertNotIn(name, types, "a metric has two types")
                types[name] = kind
            elif not line.startswith("# HELP "):
                match = SAMPLE.match(line)
                self.assertTrue(match, line)
                samples.append((match.group(1), match.group(2), float(match.group(3))))
                family = re.sub("_(bucket|sum|count)$", "", match.group(1))
                kind = types.get(match.group(1)) or types[family]
                self.assertEqual(list(types)[-1], match.group(1) if match.group(1) in types else family,
                                 "the samples of a metric are not together")
                self.assertEqual(kind == "counter", match.group(1).endswith("_total"), line)
        self.assertEqual(len(samples), len({(name, labels) for name, labels, _ in samples}), "a sample comes twice")
        sent = [value for name, labels, value in samples
                if name == "verbatim_connection_messages_sent_total" and 'pid="%d"' % client.pid in labels]
        self.assertEqual(sent, [MESSAGES])
        self.assert_buckets_grow(samples)

    def assert_buckets_grow(self, samples):
        series = {}
        for name, labels, value in samples:
            if name == "verbatim_latency_seconds_bucket":
                series.setdefault(re.sub(',?le="[^"]*"', "", labels), []).append(value)
        self.assertTrue(series)
        for labels, values in series.items():
            self.assertEqual(values, sorted(values))
            (count,) = (v for n, l, v in samples if n == "verbatim_latency_seconds_count" and l == labels)
            self.assertEqual(values[-1], count)

    def test_top_prints_rounds_with_rates(self):
        server, _ = self.pair()
        text = self.stat("--rounds", "3", "--interval", "0.05", command="top")
        self.assertEqual(text.count("process %d " % server.pid), 3)
        self.assertIn("/s", text)
        self.assertNotIn("\x1b", text)

    def test_a_killed_process_is_told_with_its_last_counts(self):
        server, _ = self.pair()
        os.kill(server.pid, signal.SIGKILL)
        server.wait(PATIENCE)
        last = self.processes()[server.pid]
        self.assertFalse(last["runs"])
        self.assertEqual(last["connections"][0]["messages_received"], MESSAGES)
        self.assertIn("which was killed", self.stat())

    def test_a_process_that_ends_leaves_nothing(self):
        server, client = self.pair()
        for process in (client, server):
            process.stdin.close()
            process.wait(PATIENCE)
        self.assertEqual(os.listdir(self.segments), [])

    def test_a_corrupted_segment_is_told_and_the_others_are_shown(self):
        server, _ = self.pair()
        with open(os.path.join(self.segments, "1-1-1"), "wb") as file:
            file.write(os.urandom(100000))
        self.assertIn(server.pid, self.processes())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
