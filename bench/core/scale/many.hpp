// Many connections of one context, all on its lane: what the measurements of this folder share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <verbatim/core/context.hpp>

#include "../subject.hpp"

namespace verbatim::bench {

// One side's context and its connections. The first side listens, the second one connects; the n-th
// connection of both is the same one. Handlers take what arrives.
class Many {
  public:
    explicit Many(Side& side, const Config& config = default_config());
    // The defaults, but for the device and a warning where no huge pages are reserved.
    static Config default_config();

    // Sets up so many more. Both sides call it, with the same number.
    void add(unsigned count);
    // Closes all but the first so many. Both sides call it.
    void keep(unsigned count);
    Context& context() noexcept { return context_; }
    std::size_t size() const noexcept { return connections_.size(); }
    Connection& operator[](std::size_t index) noexcept { return *connections_[index]; }
    Lane& lane() noexcept { return lane_; }
    // Throws the error of a connection that ended.
    void check();

    // Sends a message of this number, when there is room. The other words are those that the bytes
    // happen to have.
    void send(std::size_t index, std::span<const std::byte> bytes);
    // Polls until a message has come. Returns its first word; from() is its connection.
    std::uint64_t receive();
    std::size_t from() const noexcept { return from_; }
    void poll() noexcept { (void)lane_.poll(); }
    // Polls until nothing has happened for a while: those that become armed are.
    void settle();
    // Both sides wait for each other, and poll meanwhile.
    void meet();

  private:
    void add_one();
    void add_some(unsigned count);

    Side& side_;
    Context context_;
    Lane lane_;
    std::optional<Listener> listener_;
    std::string address_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::uint64_t value_ = 0, arrived_ = 0, taken_ = 0;
    std::size_t from_ = 0;
};

// A side as a pair of ends: messages go over connections that the first side chooses.
enum class Choice : std::uint8_t { one, in_turn, random };

}  // namespace verbatim::bench
