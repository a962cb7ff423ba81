// An arrival sender tells a receiver that does not poll of what was posted: docs/arrival.md, "The
// sender, for each post". Threads: the lane's. Data path.
#pragma once

#include <cstdint>

#include "../queue/send_path.hpp"
#include "arrival_words.hpp"

namespace verbatim {

class ArrivalSender {
  public:
    // `posted`: null where both sides always poll; then announce() does nothing. `armed`: written
    // by the peer. `note`: in the peer's memory.
    ArrivalSender(SendPath& path, PostedWords* posted, const std::uint64_t& armed,
                  mlx5::RemoteMemory note)
        : path_(path),
          posted_(posted),
          armed_(armed),
          note_address_(note.address),
          note_{mlx5::PreparedWrite8(path.queue(),
                                     {.opcode = mlx5::Opcode::write, .remote_key = note.key})} {}

    // After a thing was posted, up to `position` of its kind. Errors: protocol_error, for good;
    // those of a failed queue pair.
    [[gnu::always_inline]] Errc announce(Thing thing, std::uint64_t position) noexcept {
        if (posted_ == nullptr) return Errc::ok;
        // Store and full fence: else the old generation might be read below while the receiver
        // reads the old position.
        __atomic_exchange_n(&posted_->positions[static_cast<std::size_t>(thing)], position,
                            __ATOMIC_SEQ_CST);
        const std::uint64_t armed = load_word(armed_);
        return armed == notified_ ? Errc::ok : notify(armed);
    }
    // Another queue pair, which knows no generation; `posted` and `note`: as above.
    void restart(PostedWords* posted, mlx5::RemoteMemory note) noexcept {
        posted_ = posted;
        note_address_ = note.address;
        note_.operation.set_remote_key(note.key);
        current_ = notified_ = 0;
    }

    // Immediates and notes that were posted.
    const std::uint64_t& wakeups() const noexcept { return wakeups_; }

  private:
    [[gnu::noinline]] Errc notify(std::uint64_t armed) noexcept;
    Errc post_immediate() noexcept;

    SendPath& path_;
    PostedWords* posted_;
    const std::uint64_t& armed_;
    std::uint64_t current_ = 0;   // the last word of the peer's
    std::uint64_t notified_ = 0;  // the same, where nothing more is to be told
    std::uint64_t notes_ = 0;     // that were posted; a note is their number
    std::uint64_t wakeups_ = 0;   // notes, too
    std::uint64_t note_address_;  // 0: the peer takes none
    PreparedPost<mlx5::PreparedWrite8> note_;
};

}  // namespace verbatim
