// One-sided operations of a talk beside the model: reads of bytes that never change, and additions
// to words to which only this side adds. Threads: the lane's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <verbatim/core/one_sided.hpp>

namespace verbatim::test::soak {

class Remote {
  public:
    using Random = std::mt19937_64;
    // What a side lends for it, and what of its own arena it uses.
    static constexpr std::size_t kReadBytes = 1024, kWords = 8,
                                 kLentBytes = kReadBytes + 8 * kWords;
    static constexpr std::size_t kMostAtOnce = 4, kLongest = 256,
                                 kLocalBytes = kMostAtOnce * kLongest;

    // Memory that the peer reads and adds to: its bytes follow from the names.
    static void fill(std::span<std::byte> lent, std::uint32_t connection, std::uint8_t side);

    // `local`: kLocalBytes of an arena. `lent`: what the peer, `side`, has filled.
    void begin(std::byte* local, const RemoteExtent& lent, std::uint32_t connection,
               std::uint8_t side);
    bool has_begun() const noexcept { return local_ != nullptr; }
    // One more of them, where there is room.
    void start(Connection& connection, Random& random);
    // Takes those that are over.
    struct Outcome {
        std::uint64_t done = 0;
        Errc failed = Errc::ok;  // of the last one that failed
        std::string wrong;       // empty: those that are done are as the model has it
    };
    Outcome look(Connection& connection);
    bool is_idle() const noexcept { return open_.empty(); }

  private:
    struct Open {
        Operation operation;
        std::size_t slot = 0, at = 0, bytes = 0;  // `at`: of a word, which one
        bool adds = false;
        std::uint64_t before = 0;  // what an addition must find
    };
    std::byte* slot(std::size_t index) const noexcept { return local_ + index * kLongest; }
    std::size_t free_slot() const noexcept;
    Errc read(OneSided one_sided, Open& open, Random& random) const;
    Errc add(OneSided one_sided, Open& open, Random& random);
    std::string difference(const Open& open) const;

    std::byte* local_ = nullptr;
    RemoteExtent lent_;
    std::vector<std::byte> expected_;
    std::uint64_t sums_[kWords] = {};
    std::vector<Open> open_;
};

}  // namespace verbatim::test::soak
