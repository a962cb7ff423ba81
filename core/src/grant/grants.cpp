// Windows that open and close.
#include "grants.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace verbatim {
namespace {

using Phase = LentMemory::Phase;

// Of one window; both work requests and cards allow no more.
constexpr std::size_t kLongestPiece = std::size_t{1} << 30;

[[noreturn]] void refuse(Errc code, std::string cause, std::string remedy) {
    throw Error(code, "grant", std::move(cause), std::move(remedy));
}

}  // namespace

std::shared_ptr<LentMemory> Grants::lend(const LocalMemory& local, std::span<std::byte> memory,
                                         Access access, GrantTerms terms) {
    quarantine_->sweep();
    if (quarantine_->is_full())
        refuse(Errc::out_of_memory,
               fmt::format("{} bytes of lost peers are in quarantine", quarantine_->bytes()),
               "let processes that are stopped go on, or end them");
    if (memory.empty() || access == Access::local_read)
        refuse(Errc::invalid_argument, "it gives the peer nothing", "lend bytes, with an access");
    local.ensure(memory.data(), memory.size());
    if (lot_.empty()) lot_.emplace_back();
    if (lent_ == nullptr) lent_ = std::make_shared<Abandoned>();
    auto lent = std::make_shared<LentMemory>();
    make_pieces(*lent, local, memory, access);
    notices_.expect(lent->extents.size());
    lent->quarantine = quarantine_;
    lent_->list.push_back(lent);
    lent->grants = this;
    lent->owner = std::move(terms.owner);
    lent->notice = terms.notice;
    lent_->bytes += memory.size();
    ++busy_;
    (void)go_on(*lent);
    if (busy_ != 0) lane_->pending().add(member_);
    return lent;
}

void Grants::make_pieces(LentMemory& lent, const LocalMemory& local, std::span<std::byte> memory,
                         Access access) {
    while (!memory.empty()) {
        const std::size_t bytes =
            std::min({memory.size(), local.to_end(memory.data()), kLongestPiece});
        const MemoryRegion* region = nullptr;
        if (const Errc error = local.find(memory.data(), region); error != Errc::ok)
            refuse(error, "its memory is not registered", "lend memory that there is");
        LentPiece piece = take_window();
        mlx5::WindowBinding& binding = piece.binding;
        binding.window_key = std::exchange(binding.new_key, mlx5::next_window_key(binding.new_key));
        binding.local_key = region->local_key();
        binding.address = reinterpret_cast<std::uint64_t>(memory.data());
        binding.bytes = static_cast<std::uint32_t>(bytes);
        binding.remote_read = allows(access, Access::remote_read);
        binding.remote_write = allows(access, Access::remote_write);
        binding.remote_atomic = allows(access, Access::remote_atomic);
        lent.extents.push_back({binding.address, bytes, binding.new_key, 0});
        lent.pieces.push_back(std::move(piece));
        memory = memory.subspan(bytes);
    }
}

LentPiece Grants::take_window() {
    LentPiece piece;
    // A notice that comes after its key was lent once more would end the wrong operations.
    const auto is_free = [&](const LentPiece& spare) {
        return !notices_.has(mlx5::next_window_key(spare.binding.new_key));
    };
    if (!spare_.empty() && is_free(spare_.back())) {
        piece = std::move(spare_.back());
        spare_.pop_back();
        return piece;
    }
    if (spare_.capacity() == 0) spare_.reserve(kMostSpare);
    piece.window = device_.create_memory_window(WindowType::queue_pair);
    piece.binding.new_key = piece.window->key();
    return piece;
}

void Grants::end(LentMemory& lent) noexcept {
    if (holds_ends_) return;
    const auto guard = lane_->enter();
    begin_end(lent, peer_hears_ && lent.notice == EndNotice::sent && !member_.has_ended());
}

void Grants::begin_end(LentMemory& lent, bool peer_hears) noexcept {
    const Phase phase = lent.phase.load(std::memory_order_relaxed);
    if (phase != Phase::opening && phase != Phase::open) return;
    if (phase == Phase::open) ++busy_;
    lent.phase.store(Phase::ending, std::memory_order_relaxed);
    notices_.add(lent.extents, peer_hears);
    notices_.post(member_.ring());
    // What has retired is let go by a poll: here an owner would end in the midst of its user.
    (void)go_on(lent);
    lane_->pending().add(member_);
}

void Grants::end_all() noexcept {
    holds_ends_ = false;
    notices_.clear();  // the bye says it
    if (lent_ == nullptr) return;
    for (const auto& lent : lent_->list) begin_end(*lent, false);
}

bool Grants::progress() noexcept {
    if (busy_ == 0 && notices_.empty()) [[likely]]
        return true;
    if (member_.path().error() != Errc::ok) {
        abandon();
        return true;
    }
    if (member_.has_ended()) notices_.clear();
    notices_.post(member_.ring());
    List ended;  // owners may lend and end others
    if (lent_ == nullptr) return notices_.empty();
    for (auto next = lent_->list.begin(); next != lent_->list.end();) {
        const auto at = next++;
        if (go_on(**at)) ended.splice(ended.end(), lent_->list, at);
    }
    for (const auto& lent : ended) {
        for (const RemoteExtent& extent : lent->extents) lent_->bytes -= extent.bytes;
        --busy_;
        lent->grants = nullptr;
        keep_windows(*lent);
    }
    for (const auto& lent : ended) lent->let_go();
    return busy_ == 0 && notices_.empty();
}

// True: it has ended.
bool Grants::go_on(LentMemory& lent) noexcept {
    switch (lent.phase.load(std::memory_order_relaxed)) {
        case Phase::opening:
            if (!open(lent)) return false;
            lent.phase.store(Phase::open, std::memory_order_relaxed);
            --busy_;
            return false;
        case Phase::ending:
            return close(lent) && member_.path().retired() >= lent.last;
        default:
            return false;
    }
}

// False: the queue is full, or has failed.
bool Grants::open(LentMemory& lent) noexcept {
    for (; lent.opened < lent.pieces.size(); ++lent.opened) {
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::bind_window,
                                  .window = &lent.pieces[lent.opened].binding};
        if (member_.path().post(request) != Errc::ok) return false;
    }
    return true;
}

bool Grants::close(LentMemory& lent) noexcept {
    for (; lent.closed < lent.opened; ++lent.closed) {
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::local_invalidate,
                                  .invalidated_key = lent.pieces[lent.closed].binding.new_key};
        if (lent.closed + 1 == lent.opened) member_.path().signal_next();
        if (member_.path().post(request) != Errc::ok) return false;
        lent.last = member_.path().accepted();
    }
    return true;
}

void Grants::keep_windows(LentMemory& lent) noexcept {
    for (std::size_t i = 0; i < lent.pieces.size() && spare_.size() < spare_.capacity(); ++i) {
        LentPiece& piece = lent.pieces[i];
        if (i >= lent.opened) piece.binding.new_key = piece.binding.window_key;
        spare_.push_back(std::move(piece));
    }
}

void Grants::abandon() noexcept {
    spare_.clear();
    notices_.reset();
    if (lent_ == nullptr || lent_->list.empty()) return;
    busy_ = 0;
    for (const auto& lent : lent_->list) {
        lent->grants = nullptr;
        lent->phase.store(Phase::quarantine, std::memory_order_release);
    }
    lot_.front().bytes = lent_->bytes;
    lot_.front().held = std::exchange(lent_, nullptr);
    quarantine_->put(std::move(lot_));
}

}  // namespace verbatim
