"""The examples, run as their first lines say. Arguments: the directory of the programs, the source root, a wrong peer,
the library of the software NIC for rdma-core."""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

PROGRAMS, SOURCE, WRONG_PEER, UVERBS = (os.path.abspath(argument) for argument in sys.argv[1:5])
PATIENCE = 60


def program(name):
    return os.path.join(PROGRAMS, "example-" + name)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


class Examples(unittest.TestCase):
    def setUp(self):
        # The programs read ./verbatim.toml where there is one.
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        os.chdir(self.directory.name)

    def run_both(self, first, second):
        """Starts the side that waits, then the side that calls, again until the other listens. Both when they ended."""
        with subprocess.Popen(first, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
            calling = self.call(waiting, second)
            out, err = waiting.communicate(timeout=PATIENCE)
            return subprocess.CompletedProcess(first, waiting.returncode, out, err), calling

    def call(self, waiting, command):
        """Runs the side that calls, again until the other one listens."""
        deadline = time.monotonic() + PATIENCE
        calling = run(*command)
        while calling.returncode != 0 and "nobody listens" in calling.stderr and time.monotonic() < deadline:
            self.assertIsNone(waiting.poll(), "the waiting side ended")
            time.sleep(0.02)
            calling = run(*command)
        return calling

    def both(self, name, first, second):
        waited, called = self.run_both((program(name), first), (program(name), second))
        self.assertEqual(called.returncode, 0, called.stderr)
        self.assertEqual(waited.returncode, 0, waited.stderr)
        return waited.stdout

    def test_points(self):
        self.assertEqual(self.both("points", "receive", "send"), "0 0\n4 0\n0 3\n0 0\ntriangle, closed: yes\n")

    def test_a_graph_of_many_types(self):
        author = "M. Example, of a long name"
        self.assertEqual(self.both("library", "receive", "send"), f"a: One by {author}\nb: Two by {author}\nbusiest: 1\n")

    def test_a_graph_in_files(self):
        result = run(program("saved"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "Birch Street, a long name\nAlder, relocated: no\n")

    def test_lives_of_a_received_graph(self):
        self.assertEqual(self.both("lives", "receive", "send"), "Example & Daughters, Ltd.: 2 articles\n")

    def test_parts_of_a_received_graph(self):
        self.assertEqual(self.both("parts", "receive", "send"), "of the station: 1\na pier with a long name, tide: 7\n")

    def test_a_graph_is_passed_on_as_it_came(self):
        with subprocess.Popen((program("forward"), "forward"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as forwarder:
            self.addCleanup(forwarder.kill)
            sent = self.call(forwarder, (program("forward"), "send"))
            received = self.call(forwarder, (program("forward"), "receive"))
            out, err = forwarder.communicate(timeout=PATIENCE)
        self.assertEqual((sent.returncode, received.returncode, forwarder.returncode), (0, 0, 0),
                         sent.stderr + received.stderr + err)
        self.assertEqual(out, "from the first process: as it came\n")
        self.assertEqual(received.stdout, "from the first process, a text that is long enough, closed: yes\n")

    def test_elements_of_a_range(self):
        self.assertEqual(self.both("elements", "receive", "send"),
                         "north pier: 100\na lighthouse with a longer name: 200\nharbour: 300\n")

    def test_markings_of_a_class(self):
        self.assertEqual(self.both("markings", "receive", "send"), "refused\n3 bins, 5 ms\n")

    def test_a_composed_message_of_seated_objects(self):
        self.assertEqual(self.both("seated", "receive", "send"),
                         "a prelude with a long title; best: a fugue with a long title, 3 beats\n")

    def test_how_classes_were_found(self):
        self.assertEqual(self.both("classes", "receive", "send"),
                         "moo ... cluck: as the one before 5, other classes 2\n")

    def test_a_composed_message(self):
        self.assertEqual(self.both("composed", "receive", "send"), "3 stops, the last 12 minutes away, then Harbour\n")

    def test_graphs_that_nobody_waits_for(self):
        self.assertEqual(self.both("async", "receive", "send"),
                         "100 bytes, 2 graphs left\n100 bytes, 1 graphs left\n100 bytes, 0 graphs left\n")

    def test_objects_of_derived_classes(self):
        self.assertEqual(self.both("shapes", "receive", "send"), "area: 18, of a clone: 18\n")

    def test_a_graph_that_is_sent_by_a_handle(self):
        self.assertEqual(self.both("handles", "receive", "send"), "100000 times 1, 3 times 2\n")

    def test_a_coroutine_that_answers_graphs(self):
        waited, called = self.run_both((program("coroutine"), "serve"), (program("coroutine"), "ask"))
        self.assertEqual((waited.returncode, called.returncode), (0, 0), waited.stderr + called.stderr)
        self.assertEqual(called.stdout, "2 numbers, the last one 2\n3 numbers, the last one 3\n")

    def test_a_class_of_a_plugin(self):
        plugins, piano = program("plugins"), os.path.join(PROGRAMS, "example-piano.so")
        waited, called = self.run_both((plugins, "receive", piano), (plugins, "send", piano))
        self.assertEqual((waited.returncode, called.returncode), (0, 0), waited.stderr + called.stderr)
        self.assertEqual(waited.stdout, "a piano of 88 keys\n")

    def test_a_class_of_a_plugin_that_the_receiver_lacks(self):
        plugins, piano = program("plugins"), os.path.join(PROGRAMS, "example-piano.so")
        waited, _ = self.run_both((plugins, "receive"), (plugins, "send", piano))
        self.assertEqual((waited.returncode, waited.stdout), (1, ""))
        self.assertIn("Piano", waited.stderr)
        self.assertIn("piano.cpp", waited.stderr)

    def test_a_server_on_pollers(self):
        with open("verbatim.toml", "w", encoding="ascii") as file:
            file.write("[[poller]]\nname = 'one'\n[[poller]]\nmode = 'event'\n")
        self.assertEqual(self.both("server", "serve", "ask"), "a client was served\n")

    def with_configuration(self, name):
        return unittest.mock.patch.dict(os.environ, VERBATIM_CONFIG=os.path.join(SOURCE, "configs", name + ".toml"))

    def test_configurations_of_two_processes(self):
        for name in ("laptop", "latency", "throughput", "many-connections", "server"):
            with self.subTest(name=name), self.with_configuration(name):
                self.assertEqual(self.both("messages", "serve", "ask"),
                                 "asked: where may I write?\nwritten: straight into your memory\n")
        with self.with_configuration("throughput"):
            self.assertIn("4194304 bytes", self.both("stream", "receive", "send"))
        with self.with_configuration("server"):
            self.assertEqual(self.both("server", "serve", "ask"), "a client was served\n")

    def test_the_environment_sets_keys_of_a_configuration(self):
        with self.with_configuration("server"):
            self.assertEqual(run(program("settings")).stdout, "rings of 1048576 bytes\narena replies: 1073741824 bytes\n")
            with unittest.mock.patch.dict(os.environ, VERBATIM_RING_BYTES="64K", VERBATIM_DEVICE_SOFTNIC_PORT="tcp"):
                self.assertIn("rings of 65536 bytes\n", run(program("settings")).stdout)
                self.assertEqual(self.both("server", "serve", "ask"), "a client was served\n")
            with unittest.mock.patch.dict(os.environ, VERBATIM_RING_BITES="64K"):
                result = run(program("settings"))
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn("did you mean VERBATIM_RING_BYTES?", result.stderr)

    def test_a_loop_of_ones_own(self):
        self.assertEqual(self.both("epoll", "serve", "ask"), "hello from a loop\n")

    def test_a_connection_by_the_connection_manager(self):
        with unittest.mock.patch.dict(os.environ, LD_PRELOAD=UVERBS):
            self.assertEqual(self.both("managed", "serve", "ask"), "by the connection manager\n")

    def test_remote_memory(self):
        self.assertEqual(self.both("remote", "serve", "ask"), "30 35\n")

    def test_vectors_are_lent_and_written(self):
        self.assertEqual(self.both("foreign", "lend", "fill"), "1013\n")

    def test_large_arrays_leave_from_the_heap(self):
        received, sent = self.run_both((program("large_arrays"), "receive"), (program("large_arrays"), "send"))
        self.assertEqual((received.returncode, sent.returncode), (0, 0), received.stderr + sent.stderr)
        self.assertEqual(received.stdout, "".join(f"north pier: {i} 999999\n" for i in range(3)))

    def test_keys_are_read_by_a_prepared_list(self):
        served, asked = self.run_both((program("multi_get"), "serve"), (program("multi_get"), "ask"))
        self.assertEqual((served.returncode, asked.returncode), (0, 0), served.stderr + asked.stderr)
        self.assertEqual(asked.stdout, "0 10000 40000\n1 10000 40000\n4 10000 40000\n")

    def test_tagged_messages_and_a_stream(self):
        self.assertEqual(self.both("tagged", "receive", "send"),
                         "4194304 bytes, 10 bytes, and 6 of a stream\n")

    def test_many_in_place_and_long_messages(self):
        self.assertEqual(self.both("stream", "receive", "send"),
                         "1000 small ones, one in place, and one of 4194304 bytes\n")

    def test_counts_of_another_process(self):
        served, asked = self.run_both((program("telemetry"), "serve"), (program("telemetry"), "ask"))
        self.assertEqual((served.returncode, asked.returncode), (0, 0), served.stderr + asked.stderr)
        self.assertEqual(served.stdout, "received: 100 messages\n")
        self.assertEqual(asked.stdout, "the other process says: 100 received\n")

    def test_loops_on_dedicated_cores(self):
        dedicated = os.path.join(PROGRAMS, "..", "dedicated", "verbatim-dedicated")
        core = min(os.sched_getaffinity(0))
        with open(os.path.join(SOURCE, "configs", "dedicated.toml"), encoding="ascii") as shipped:
            text = re.sub("core = [0-9]+", "core = %d" % core, shipped.read())
        with open("dedicated.toml", "w", encoding="ascii") as file:
            file.write(text.replace('"busy"', '"adaptive"'))  # the machine may have one core
        served, asked = self.run_both((dedicated, "serve", "dedicated.toml"),
                                      (dedicated, "ask", "dedicated.toml", "200"))
        self.assertEqual((served.returncode, asked.returncode), (0, 0), served.stderr + asked.stderr)
        times = "on core %d; p50 [0-9]+ ns, p99 [0-9]+ ns, p99.9 [0-9]+ ns, max [0-9]+ ns" % core
        self.assertRegex(asked.stdout, "round trips: 200 " + times)
        self.assertRegex(served.stdout, "looks at the lane: [0-9]+ " + times)

    def test_messages_with_a_configuration_file(self):
        with open("verbatim.toml", "w", encoding="ascii") as file:
            file.write("[ring]\nbytes = 8192\n")
        self.assertEqual(self.both("messages", "serve", "ask"),
                         "asked: where may I write?\nwritten: straight into your memory\n")

    def test_a_socket_of_the_program(self):
        result = run(program("handed_socket"))
        self.assertEqual((result.returncode, result.stdout), (0, "over a socket of ours\n"), result.stderr)

    def test_a_client_outlives_its_server(self):
        with subprocess.Popen((program("reconnecting"), "send", "6"), stderr=subprocess.PIPE, text=True) as client:
            self.addCleanup(client.kill)
            self.assertEqual(run(program("reconnecting"), "serve").stdout, "line 0\nline 1\nline 2\n")
            self.assertEqual(run(program("reconnecting"), "serve").stdout, "line 3\nline 4\nline 5\n")
            self.assertEqual(client.wait(PATIENCE), 0, client.stderr.read())

    def test_messages_by_a_key(self):
        verbatim = os.path.join(PROGRAMS, "..", "cli", "verbatim")
        made = run(verbatim, "key", "key")
        self.assertEqual((made.returncode, made.stdout), (0, ""), made.stderr)
        self.assertEqual(os.stat("key").st_mode & 0o777, 0o600)
        with open("key", encoding="ascii") as file:
            key = file.read()
        self.assertRegex(key, "^[0-9a-f]{64}\n$")
        with open("verbatim.toml", "w", encoding="ascii") as file:
            file.write("[connect]\nkey_file = 'key'\n")
        self.assertEqual(self.both("messages", "serve", "ask"),
                         "asked: where may I write?\nwritten: straight into your memory\n")
        again = run(verbatim, "key", "key")
        self.assertEqual(again.returncode, 1)
        self.assertIn("remove it first", again.stderr)
        with open("key", encoding="ascii") as file:
            self.assertEqual(file.read(), key)
        os.chmod("key", 0o644)
        asked = run(program("messages"), "ask")
        self.assertEqual(asked.returncode, 1)
        self.assertIn("chmod 600 key", asked.stderr)

    def test_messages_with_a_peer_that_answers_otherwise(self):
        _, asked = self.run_both((WRONG_PEER, "serve"), (program("messages"), "ask"))
        self.assertEqual(asked.returncode, 1)
        self.assertIn("it answered something else", asked.stderr)

    def test_messages_with_a_peer_that_ends_no_text(self):
        served, asked = self.run_both((program("messages"), "serve"), (WRONG_PEER, "ask"))
        self.assertEqual((served.returncode, asked.returncode), (0, 0), served.stderr + asked.stderr)
        self.assertEqual(served.stdout, "asked: \nwritten: " + 4096 * "x" + "\n")

    def test_post(self):
        result = run(program("post"))
        self.assertEqual((result.returncode, result.stdout), (0, "0 1 4 9 16 25 36 49 \n"), result.stderr)

    def test_read_many(self):
        result = run(program("read_many"))
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [" ".join(str(row * 100 + i) for i in range(10)) for row in range(4)]
        self.assertEqual([line.strip() for line in result.stdout.splitlines()], rows)

    def test_usage_is_told(self):
        for name in ("points", "messages"):
            result = run(program(name))
            self.assertEqual(result.returncode, 2)
            self.assertIn("usage: example-" + name, result.stderr)


class Readme(unittest.TestCase):
    def test_example_is_the_compiled_program(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            shown = re.search(r"```cpp\n(.*?)```", file.read(), re.S).group(1)
        with open(os.path.join(SOURCE, "apps/examples/points.cpp"), encoding="utf-8") as file:
            source = file.read()
        self.assertEqual(shown, source[source.index("#include"):])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
