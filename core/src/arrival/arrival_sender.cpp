// The immediate behind a thing.
#include "arrival_sender.hpp"

namespace verbatim {

Errc ArrivalSender::notify(std::uint64_t generation) noexcept {
    if (generation != notified_ + 1) return Errc::protocol_error;
    mlx5::WorkRequest request{.opcode = mlx5::Opcode::write_immediate,
                              .immediate = static_cast<std::uint32_t>(generation)};
    const Errc error = path_.post_reserved(request);
    if (error == Errc::ok) notified_ = generation;
    // The reserve has a block for it: a full queue is a failed one.
    return error == Errc::would_block ? Errc::device_error : error;
}

}  // namespace verbatim
