#include "receiver_process.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace bench_graph {
namespace {

using std::chrono::seconds;

std::pair<Channel, Channel> make_channel() {
    std::array<int, 2> files{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files.data()) != 0)
        throw std::runtime_error("bench_graph: no socket pair");
    return {Channel(files[0]), Channel(files[1])};
}

[[noreturn]] void run(const std::function<void(Channel&)>& serve, Channel& channel) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
        serve(channel);
        _exit(0);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_graph: receiver: %s\n", error.what());
        _exit(1);
    }
}

}  // namespace

Channel::Channel(Channel&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

Channel::~Channel() {
    if (file_ >= 0) close(file_);
}

void Channel::send(std::uint64_t word) const {
    if (::send(file_, &word, sizeof word, MSG_NOSIGNAL) != sizeof word)
        throw std::runtime_error("bench_graph: the receiver process has ended");
}

std::uint64_t Channel::receive() const {
    std::uint64_t word = 0;
    if (recv(file_, &word, sizeof word, MSG_WAITALL) != sizeof word)
        throw std::runtime_error("bench_graph: the other process has ended");
    return word;
}

ReceiverProcess::ReceiverProcess(const std::function<void(Channel&)>& serve)
    : ReceiverProcess(serve, make_channel()) {}

ReceiverProcess::ReceiverProcess(const std::function<void(Channel&)>& serve,
                                 std::pair<Channel, Channel> ends)
    : process_(fork()), channel_(std::move(ends.first)) {
    if (process_ < 0) throw std::runtime_error("bench_graph: cannot start a process");
    if (process_ != 0) return;
    { const Channel parents(std::move(channel_)); }  // so that its end is noticed
    run(serve, ends.second);
}

ReceiverProcess::~ReceiverProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
}

double ReceiverProcess::cpu_ns() const {
    clockid_t clock{};
    timespec now{};
    if (clock_getcpuclockid(process_, &clock) != 0 || clock_gettime(clock, &now) != 0)
        throw std::runtime_error("bench_graph: the receiver process has ended");
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::unique_ptr<verbatim::Context> make_context(std::size_t arena_bytes, std::size_t receive_bytes,
                                                bool hostile) {
    verbatim::Config config;
    config.device.kind = "softnic";
    config.arena.initial_bytes = arena_bytes;
    config.receive_arena.initial_bytes = receive_bytes;
    config.objects.hostile = hostile;
    return std::make_unique<verbatim::Context>(config);
}

std::unique_ptr<verbatim::Connection> accept_one(verbatim::Context& context, Channel& channel) {
    verbatim::Listener listener = context.listen("127.0.0.1:0");
    channel.send(listener.port());
    return std::make_unique<verbatim::Connection>(
        listener.accept(verbatim::Deadline::after(seconds(10))));
}

std::unique_ptr<verbatim::Connection> connect_to(verbatim::Context& context,
                                                 const Channel& channel) {
    return std::make_unique<verbatim::Connection>(
        context.connect(fmt::format("127.0.0.1:{}", channel.receive())));
}

}  // namespace bench_graph
