// Reads of what the peer lends, one after the other.
#include "lent_pull.hpp"

#include <algorithm>
#include <new>

namespace verbatim {

void LentPull::start(LentOffer& offer, std::span<std::byte> into) noexcept {
    RegionTables& arenas = impl_.context->arenas;
    const RegionTable* const table = into.empty() ? nullptr : arenas.find(into.data());
    is_direct_ = table != nullptr && table->arena().contains(&into.back());
    offer_ = &offer;
    into_ = into;
    local_ = {};
}

std::span<std::byte> LentPull::buffer() noexcept try {
    if (!buffer_)
        buffer_ = {static_cast<std::byte*>(arena_->allocate(kBuffer, alignof(std::max_align_t))),
                   Free{arena_.get()}};
    return {buffer_.get(), kBuffer};
} catch (const std::exception&) {
    return {};
}

Errc LentPull::advance() noexcept {
    while (!into_.empty()) {
        if (const Errc error = post(); error != Errc::ok) return error;
        const Errc error = one_sided_.result(operation_);
        if (error == Errc::would_block) return error;
        is_posted_ = false;
        if (error != Errc::ok) return error;
        take();
    }
    offer_ = nullptr;
    return Errc::ok;
}

Errc LentPull::post() noexcept {
    if (is_posted_) return Errc::ok;
    if (local_.empty()) {
        const std::span<std::byte> room = is_direct_ ? into_ : buffer();
        if (room.empty()) return Errc::out_of_memory;
        const std::size_t most = std::min(room.size(), into_.size());
        local_ = room.first(offer_->rest(most).bytes);
        operation_ = {};
    }
    const RemoteSpan<std::byte> from(offer_->rest(local_.size()));
    const Errc error = one_sided_.try_read(from, local_, operation_);
    is_posted_ = error == Errc::ok;
    return error;
}

void LentPull::take() noexcept {
    if (!is_direct_) std::ranges::copy(local_, into_.begin());
    offer_->taken += local_.size();
    into_ = into_.subspan(local_.size());
    local_ = {};
}

void LentPull::await_read() noexcept {
    const Deadline deadline = Deadline::after(impl_.context->config.connect.timeout);
    for (unsigned round = 0; !deadline.passed(round); ++round) {
        if (impl_.one_sided.outcome(operation_.number) != Errc::would_block) return;
        (void)impl_.member.path().poll();
    }
}

// What was accepted retires, also where the connection has failed. A peer that is stopped may hold
// that up: then the memory is the device's until the connection has gone.
void LentPull::stop() noexcept {
    // Else the connection may have gone.
    if (!local_.empty() && (is_posted_ || operation_.done != 0)) await_read();
    offer_ = nullptr;
    local_ = into_ = {};
    is_posted_ = false;
}

}  // namespace verbatim
