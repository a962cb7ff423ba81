// The immediate or the note behind a thing.
#include "arrival_sender.hpp"

namespace verbatim {

// Generations that were not seen are behind: the peer may change its mind between two posts.
Errc ArrivalSender::notify(std::uint64_t armed) noexcept {
    if (armed != current_) {
        if (armed::generation(armed) <= armed::generation(current_)) return Errc::protocol_error;
        current_ = armed;
    }
    Errc error = Errc::ok;
    if ((armed & armed::kSilent) != 0)
        notified_ = armed;
    else if ((armed & armed::kNote) == 0)
        error = post_immediate();
    else if (note_address_ == 0)
        return Errc::protocol_error;
    else if (error = path_.post_reserved(note_, note_address_, notes_ + 1); error == Errc::ok)
        ++notes_, ++wakeups_;
    // The reserve has a block for it: a full queue is a failed one.
    return error == Errc::would_block ? Errc::device_error : error;
}

Errc ArrivalSender::post_immediate() noexcept {
    mlx5::WorkRequest request{.opcode = mlx5::Opcode::write_immediate,
                              .immediate = static_cast<std::uint32_t>(current_)};
    const Errc error = path_.post_reserved(request);
    if (error != Errc::ok) return error;
    notified_ = current_;
    ++wakeups_;
    return error;
}

}  // namespace verbatim
