// The barrier after memory was taken away: made after a key, or a queue pair's state, was changed,
// it knows which threads may still be touching the memory by what was allowed before, and when the
// last of them has left. Protocol: docs/revocation.md. Threads: one at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "access_registry.hpp"

namespace verbatim::softnic {

class Revocation {
  public:
    // Waits for all words of the registry, or, where `queue_pair` is not 0, for its words only.
    explicit Revocation(AccessRegistry& registry, std::uint32_t queue_pair = 0) noexcept;
    // For this word only.
    Revocation(AccessRegistry& registry, const std::shared_ptr<AccessWord>& word) noexcept;

    // True: nobody touches the memory by what was revoked. No allocation, nobody is waited for; a
    // system call where a peer has been inside for long.
    bool settled() noexcept;
    // Waits until settled(), as long as the registry's patience lasts, but not for those who were
    // waited for in vain before. False: a process seems to be stopped inside; the log says which.
    // Control path: not within a gate.
    bool wait() noexcept;
    // After settled() was false for too long: as wait(), at its end.
    void give_up() noexcept;

  private:
    struct Inside {
        std::shared_ptr<AccessWord> word;
        std::uint64_t value = 0;
    };
    // More are looked for again when these have left.
    static constexpr std::size_t kMost = 16;

    void look() noexcept;
    void note(const std::shared_ptr<AccessWord>& word) noexcept;
    void drop_those_who_left(bool look_at_processes) noexcept;
    bool hopeless() const noexcept;

    void raise() const noexcept;

    AccessRegistry* registry_;
    std::uint32_t queue_pair_ = 0;
    std::array<Inside, kMost> inside_;
    std::size_t count_ = 0;
    bool complete_ = false;  // inside_ holds all that were inside
    std::chrono::steady_clock::time_point looked_at_processes_;
};

}  // namespace verbatim::softnic
