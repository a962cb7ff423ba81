// A receiver process has the receiving side of a benchmark, as a program of its own would. It is
// started before this process has a context, and killed with its owner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/context.hpp>

namespace bench_graph {

// One end of a pair of connected sockets, for words that are not part of what is measured.
class Channel {
  public:
    explicit Channel(int file) : file_(file) {}
    Channel(Channel&& other) noexcept;
    Channel& operator=(Channel&&) = delete;
    ~Channel();
    void send(std::uint64_t word) const;
    // Throws std::runtime_error when the other side has ended.
    std::uint64_t receive() const;

  private:
    int file_;
};

class ReceiverProcess {
  public:
    // `serve` runs in the new process with its end of the channel, until it returns or this ends.
    explicit ReceiverProcess(const std::function<void(Channel&)>& serve);
    ~ReceiverProcess();
    ReceiverProcess(const ReceiverProcess&) = delete;
    ReceiverProcess& operator=(const ReceiverProcess&) = delete;

    const Channel& channel() const { return channel_; }
    // Processor time of all its threads so far.
    double cpu_ns() const;

  private:
    ReceiverProcess(const std::function<void(Channel&)>& serve, std::pair<Channel, Channel> ends);
    pid_t process_ = -1;
    Channel channel_;
};

// A context on the software NIC whose arenas hold so many bytes without growing.
// hostile: that of [objects].
std::unique_ptr<verbatim::Context> make_context(std::size_t arena_bytes, std::size_t receive_bytes,
                                                bool hostile = false);
// The receiver says over the channel where it listens.
std::unique_ptr<verbatim::Connection> accept_one(verbatim::Context& context, Channel& channel);
std::unique_ptr<verbatim::Connection> connect_to(verbatim::Context& context,
                                                 const Channel& channel);

}  // namespace bench_graph
