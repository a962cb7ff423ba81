// What running devices say of themselves, and to whom.
#include <verbatim/softnic/running.hpp>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "host/link_message.hpp"
#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

// Of this process's device of that name; empty: it is not there.
std::string description_of(const std::string& name) {
    for (const RunningDevice& device : running_devices())
        if (device.process == getpid() &&
            device.description.find("name = \"" + name + "\"\n") != std::string::npos)
            return device.description;
    return {};
}

EndOptions named(const char* name, const char* faults = "") {
    EndOptions options;
    options.device.name = name;
    options.device.faults = parse_faults(faults, "test");
    return options;
}

TEST(Running, a_device_is_seen_as_long_as_it_is_open) {
    Options options;
    options.name = "seen";
    auto device = open_device(options);
    EXPECT_EQ(description_of("seen"), "name = \"seen\"\n");
    device.reset();
    EXPECT_EQ(description_of("seen"), "");
}

TEST(Running, queue_pairs_are_told_with_state_peer_and_counters) {
    Pair pair(named("teller", "drop operations=send nth=2"), named("other"));
    const std::uint64_t word = 1;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0, 0, i == 2), Errc::ok);
        ASSERT_EQ(pair.b.post_receive(0, 64), Errc::ok);
        const mlx5::Element element = pair.a.element(0, 8);
        ASSERT_EQ(pair.a.post_send({&element, 1}), Errc::ok);
    }
    ASSERT_TRUE(pair.poll_for(4, 3));
    const std::string a = description_of("teller"), b = description_of("other");
    const auto number = [](const End& end) {
        return std::to_string(end.queue_pair->view().number) + "\n";
    };
    for (const std::string& line :
         {"number = " + number(pair.a), "peer = " + number(pair.b),
          std::string("transport = \"RC\"\n"), std::string("state = \"RTS\"\n"),
          std::string("requests = 6\n"), std::string("messages = 0\n"),
          std::string("bytes_sent = 48\n"), std::string("bytes_received = 0\n"),
          std::string("[queue_pairs.faults]\ndrop = 1\n")})
        EXPECT_NE(a.find(line), std::string::npos) << line << " is not in\n" << a;
    EXPECT_NE(b.find("messages = 3\nbytes_sent = 0\nbytes_received = 24\n"), std::string::npos)
        << b;
    pair.a.queue_pair->fail();
    EXPECT_NE(description_of("teller").find("state = \"ERR\"\n"), std::string::npos);
}

TEST(Running, what_reads_and_atomics_bring_is_counted_as_received) {
    Pair pair(named("reader"), named("other"));
    const mlx5::Element into[] = {pair.a.element(0, 100), pair.a.element(1000, 300)};
    mlx5::WorkRequest read = pair.a.request(mlx5::Opcode::read, 64);
    read.elements = into;
    ASSERT_EQ(pair.a.send->post(read), Errc::ok);
    mlx5::WorkRequest add = pair.a.request(mlx5::Opcode::fetch_add, 64);
    const mlx5::Element word = pair.a.element(0, 8);
    add.elements = {&word, 1};
    ASSERT_EQ(pair.a.send->post(add), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 0));
    const std::string a = description_of("reader");
    EXPECT_NE(a.find("bytes_sent = 0\nbytes_received = 408\n"), std::string::npos) << a;
    EXPECT_NE(description_of("other").find("bytes_sent = 0\nbytes_received = 0\n"),
              std::string::npos);
}

TEST(Running, names_of_devices_cannot_break_the_form) {
    Options options;
    options.name = "a\"\n[x]\\";
    const auto device = open_device(options);
    EXPECT_EQ(description_of("a??[x]?"), "name = \"a??[x]?\"\n");
}

TEST(Running, other_users_are_refused) {
    if (geteuid() != 0) GTEST_SKIP() << "only root may become another user: runs as root";
    Options options;
    options.name = "private";
    options.same_user_only = false;
    const auto device = open_device(options);
    auto end = device->create_completion_queue(4);
    QueuePairOptions wanted;
    wanted.send_completions = wanted.receive_completions = end.get();
    const QueuePairAddress address = device->create_queue_pair(wanted)->address();
    const pid_t child = fork();
    if (child == 0) {
        if (seteuid(65534) != 0) _exit(10);
        for (const RunningDevice& seen : running_devices())
            if (seen.process == getppid()) _exit(11);
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        const auto last = std::find(address.local_socket.begin(), address.local_socket.end(), '\0');
        const auto bytes = static_cast<std::size_t>(last - address.local_socket.begin());
        std::copy(address.local_socket.begin(), last, to.sun_path + 1);
        const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (::connect(socket, reinterpret_cast<const sockaddr*>(&to),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes)) != 0)
            _exit(12);
        LinkMessage message;
        message.op = LinkOp::describe;
        std::vector<Descriptor> files;
        if (!send_message(socket, message) ||
            !wait_readable(socket, std::chrono::steady_clock::now() + kPatience) ||
            receive_message(socket, message, files) != Received::message)
            _exit(13);
        _exit(message.op == LinkOp::refusal && files.empty() ? 0 : 14);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace verbatim::softnic::test
