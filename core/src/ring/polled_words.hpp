// Polled words are those that the peer of a connection changes with the next thing it sends, as
// they were when nothing new had come. They say in three loads that nothing has come since.
// Threads: the lane's. Data path.
#pragma once

#include <cstdint>

namespace verbatim {

struct PolledWords {
    // Word 0 of the next record, and where its trailer would be if word 0 stayed as it is. They
    // stay valid as long as the ring does, and true until anything is done with it here.
    const std::uint64_t* record = nullptr;
    const std::uint64_t* trailer = nullptr;
    const std::uint64_t* credit = nullptr;  // that comes alone
    std::uint64_t seen_record = 0, tag = 0, seen_credit = 0;
    bool are_valid = false;

    // Nothing has come.
    bool are_unchanged() const noexcept {
        return load(record) == seen_record && load(trailer) != tag && load(credit) == seen_credit;
    }

  private:
    static std::uint64_t load(const std::uint64_t* word) noexcept {
        return __atomic_load_n(word, __ATOMIC_RELAXED);
    }
};

}  // namespace verbatim
