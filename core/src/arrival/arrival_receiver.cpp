// Generations are issued and taken back.
#include "arrival_receiver.hpp"

namespace verbatim {

Errc ArrivalReceiver::begin() noexcept {
    for (std::uint32_t i = 0; i < QueueUser::kReceives; ++i) {
        const mlx5::ReceiveRequest request{.id = path_.user().id_of(0)};
        if (const Errc error = path_.user().receive().post(request); error != Errc::ok)
            return error;
    }
    return Errc::ok;
}

// Only one by immediate waits to be taken.
Errc ArrivalReceiver::issue(std::uint64_t kind) noexcept {
    mlx5::WorkRequest write{.opcode = mlx5::Opcode::write,
                            .remote_address = remote_.armed.address,
                            .remote_key = remote_.armed.key};
    const std::uint64_t word = (issued_ + 1) | kind;
    write.inline_payload = std::as_bytes(std::span(&word, 1));
    const bool is_wanted = kind != armed::kSilent;
    const Errc error = is_wanted ? path_.post_reserved(write) : path_.post(write);
    if (error != Errc::ok) return error;
    ++issued_;
    if (kind != 0) taken_ = issued_;
    return Errc::ok;
}

Errc ArrivalReceiver::arm(Wake wake) noexcept {
    const Errc issued = issue(wake == Wake::by_note ? armed::kNote : 0);
    if (issued != Errc::ok) return issued;
    // Behind it on the same queue pair: a read is executed after an earlier write.
    const mlx5::Element into{reinterpret_cast<std::uint64_t>(&copy_), sizeof copy_.positions,
                             copy_key_};
    mlx5::WorkRequest read{.opcode = mlx5::Opcode::read,
                           .remote_address = remote_.posted.address,
                           .remote_key = remote_.posted.key,
                           .elements = {&into, 1}};
    path_.signal_next();
    if (const Errc error = path_.post_reserved(read); error != Errc::ok)
        return error == Errc::would_block ? Errc::device_error : error;
    read_number_ = path_.accepted();
    state_ = State::arming;
    wake_ = wake;
    return Errc::ok;
}

Errc ArrivalReceiver::silence() noexcept {
    const Errc error = issue(armed::kSilent);
    if (error == Errc::ok) state_ = State::hot;
    return error;
}

void ArrivalReceiver::take_words() noexcept {
    for (std::size_t i = 0; i < kThings; ++i) words_.positions[i] = load_word(copy_.positions[i]);
    state_ = State::settling;
}

Errc ArrivalReceiver::take_immediate(std::uint32_t immediate) noexcept {
    if (taken_ == issued_ || immediate != static_cast<std::uint32_t>(issued_))
        return Errc::protocol_error;
    // It may come before the read has completed, or before what that named: hot at once. The next
    // arming waits for the read.
    taken_ = issued_;
    state_ = State::hot;
    return path_.user().receive().repost(1);
}

}  // namespace verbatim
