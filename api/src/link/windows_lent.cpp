#include "windows_lent.hpp"

#include <algorithm>

#include <verbatim/core/config.hpp>
#include <verbatim/objects/operations/transfer.hpp>

namespace verbatim::objects {
namespace {

// withdraw() is called in each poll of a move, which may sleep for 2 ms.
constexpr std::chrono::milliseconds kWithdrawnFor{20};
// Between two reclaims, where nothing has come back.
constexpr std::chrono::milliseconds kFirstPause{1}, kLongestPause{1000};

std::size_t room_for(const Connection& connection, std::size_t head, std::size_t item) {
    return (connection.max_message_bytes() - head) / item;
}

}  // namespace

WindowMemory::WindowMemory(std::shared_ptr<Arena> arena, std::byte* data, std::uint32_t slots,
                           ReleaseCount releases)
    : arena_(std::move(arena)),
      slots_(slots),
      owners_(std::make_unique<std::atomic<std::uint8_t>[]>(slots)),
      releases_(std::move(releases)) {
    data_ = data;
}

WindowMemory::~WindowMemory() {
    if (data_ != nullptr) arena_->deallocate(data_, bytes(), 4096);
}

bool WindowMemory::all_are(std::uint32_t slot, std::uint32_t count, Slot owner) const noexcept {
    if (slot > slots_ || count > slots_ - slot) return false;
    for (std::uint32_t i = 0; i < count; ++i)
        if (at(slot + i) != owner) return false;
    return true;
}

void WindowMemory::release(std::uint32_t slot, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i)
        owners_[slot + i].store(released, std::memory_order_release);
    releases_->fetch_add(1, std::memory_order_release);
}

LentWindows::LentWindows(Connection& connection, std::shared_ptr<Budget> budget)
    : arena_(connection.receive_arena_ptr()),
      budget_(std::move(budget)),
      most_slots_(
          std::max<std::uint64_t>(connection.config().objects.window_max / wire::kSlotBytes, 1)) {}

LentWindows::~LentWindows() {
    for (Window& window : windows_)
        if (window.memory) drop(window);
    forget_lender();
}

std::size_t LentWindows::free_number() {
    const auto at = std::find_if(windows_.begin(), windows_.end(),
                                 [](const Window& window) { return window.memory == nullptr; });
    if (at != windows_.end()) return static_cast<std::size_t>(at - windows_.begin());
    if (windows_.size() == wire::kMaxWindows)
        throw Error(Errc::out_of_memory, "receiver", "too many windows are lent",
                    "release received graphs");
    windows_.emplace_back();
    return windows_.size() - 1;
}

LentWindows::Lent LentWindows::lend(Connection& connection, const Wish& wish,
                                    std::optional<Error>& lack) {
    // Graphs that have windows go on.
    if (lent_ == 0 && Clock::now() < asks_again_.withdraws + kWithdrawnFor) return Lent::growing;
    auto count =
        static_cast<std::uint32_t>(std::max(wish.slots, std::min(wish.welcome_slots, most_slots_)));
    if (!budget_->take(count * wire::kSlotBytes, false)) {
        count = static_cast<std::uint32_t>(wish.slots);
        if (!budget_->take(count * wire::kSlotBytes, wish.is_oldest)) return Lent::over_budget;
    }
    try {
        Window window;
        std::byte* const data = take_memory(count * wire::kSlotBytes);
        if (data == nullptr) {
            budget_->give(count * wire::kSlotBytes);
            return Lent::growing;
        }
        try {
            window.memory = std::make_shared<WindowMemory>(arena_, data, count, releases_);
        } catch (...) {
            arena_->deallocate(data, count * wire::kSlotBytes, 4096);
            throw;
        }
        window.grant = Grant::begin(connection, {window.memory->data(), window.memory->bytes()},
                                    Access::remote_write, window.memory, EndNotice::none);
        if (lender_ == nullptr) note_lender(connection);
        ending_.reserve(ending_.size() + lent_ + 1);  // drop() may not fail
        windows_[free_number()] = std::move(window);
        ++lent_;
    } catch (const Error& error) {
        budget_->give(count * wire::kSlotBytes);
        if (error.code() != Errc::out_of_memory) throw;
        lack = error;
        return Lent::no_memory;
    } catch (...) {
        budget_->give(count * wire::kSlotBytes);
        throw;
    }
    peer_slots_ += count;
    untold_ = true;
    return Lent::yes;
}

// Null: the arena must populate more first, of which each call does a part.
std::byte* LentWindows::take_memory(std::uint64_t bytes) {
    return static_cast<std::byte*>(arena_->allocate_part(bytes, 4096, may_grow_));
}

bool LentWindows::lend_ahead(Connection& connection, std::uint64_t slots) {
    if (Clock::now() < asks_again_.withdraws + kWithdrawnFor) return false;
    const std::uint64_t wanted = std::min(slots, most_slots_);
    if (peer_slots_ >= wanted) return true;
    std::optional<Error> lack;
    try {
        return lend(connection, {.slots = wanted}, lack) != Lent::growing;
    } catch (const Error&) {
        return true;  // whether it is needed will be seen: then its sender is told
    }
}

bool LentWindows::bind(const wire::Binding& binding, HeldSlots& slots) noexcept {
    if (binding.window >= windows_.size() || binding.count == 0) return false;
    const Window& window = windows_[binding.window];
    if (!window.memory || !window.told ||
        !window.memory->all_are(binding.slot, binding.count, WindowMemory::with_peer))
        return false;
    for (std::uint32_t i = 0; i < binding.count; ++i)
        window.memory->set(binding.slot + i, WindowMemory::filled);
    peer_slots_ -= binding.count;
    slots = {window.memory, binding.slot, binding.count};
    return true;
}

// In the order of their numbers: the peer takes a new number only behind the last one.
void LentWindows::tell(Connection& connection) {
    if (!std::exchange(untold_, false)) return;
    for (std::size_t i = 0; i < windows_.size() && !untold_; ++i)
        if (windows_[i].memory && !windows_[i].told) untold_ = !tell(connection, i);
}

bool LentWindows::hand_back(Connection& connection) {
    const std::uint64_t releases = releases_->load(std::memory_order_acquire);
    if (releases == seen_.releases && !waiting_) return false;
    seen_.releases = releases;
    waiting_ = false;
    const std::uint64_t before = peer_slots_;
    for (std::size_t i = 0; i < windows_.size() && !waiting_; ++i)
        if (windows_[i].told && !hand_back(connection, i)) waiting_ = true;
    return peer_slots_ > before;
}

// False if the ring is full, or the send queue, so that the grant is not ready.
bool LentWindows::tell(Connection& connection, std::size_t number) {
    Window& window = windows_[number];
    if (!window.grant.is_ready()) return false;
    const std::span all = window.grant.extents();
    const std::size_t room = room_for(connection, sizeof(wire::Lend), sizeof(RemoteExtent));
    while (!window.told) {
        const std::size_t count = std::min(room, all.size() - window.told_extents);
        const bool is_last = window.told_extents + count == all.size();
        const wire::Lend head{static_cast<std::uint32_t>(number), window.memory->slots(),
                              static_cast<std::uint32_t>(count), is_last};
        if (LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(head),
                                   std::as_bytes(all.subspan(window.told_extents, count)),
                                   wire::kLend) != Errc::ok)
            return false;
        window.told_extents += count;
        window.told = is_last;
        changes_ += is_last;
        window.told_at = static_cast<std::uint32_t>(changes_);
    }
    return true;
}

// Released slots of one window go to the peer, or the window ends. False if that has to wait.
bool LentWindows::hand_back(Connection& connection, std::size_t number) {
    Window& window = windows_[number];
    WindowMemory& memory = *window.memory;
    for (std::uint32_t slot = 0; slot < memory.slots();) {
        std::uint32_t end = slot;
        while (end < memory.slots() && memory.at(end) == WindowMemory::released) ++end;
        const std::uint32_t count = end - slot;
        if (count == 0) {
            ++slot;
            continue;
        }
        if (!budget_->take(count * wire::kSlotBytes, false)) {
            if (memory.all_are(0, memory.slots(), WindowMemory::released)) drop(window);
            return window.memory == nullptr;
        }
        const wire::SlotRange range{static_cast<std::uint32_t>(number), slot, count, 0};
        if (LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(range), {},
                                   wire::kFree) != Errc::ok) {
            budget_->give(count * wire::kSlotBytes);
            return false;
        }
        ++changes_;
        for (; slot < end; ++slot) memory.set(slot, WindowMemory::with_peer);
        peer_slots_ += count;
    }
    return true;
}

void LentWindows::reclaim(Connection& connection) noexcept {
    const std::uint64_t lacks = budget_->lacks();
    if (lacks == seen_.lacks) return;
    const Clock::time_point now = Clock::now();
    const bool is_new = std::exchange(seen_.changes, changes_) != changes_;
    if (!is_new && now < asks_again_.reclaims) return;
    asks_again_.pause =
        is_new ? kFirstPause : std::clamp(2 * asks_again_.pause, kFirstPause, kLongestPause);
    asks_again_.reclaims = now + asks_again_.pause;
    seen_.lacks = lacks;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        if (!windows_[i].told || !is_idle(windows_[i])) continue;
        ask(connection, i, 0);
    }
}

// Where there is no room, it is asked again.
void LentWindows::ask(Connection& connection, std::size_t number, std::uint32_t flags) noexcept {
    const wire::WindowId head{static_cast<std::uint32_t>(number), flags};
    (void)LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(head), {},
                                 wire::kReclaim);
}

bool LentWindows::take_back(const wire::Return& said) noexcept {
    if (said.window >= windows_.size()) return false;
    Window& window = windows_[said.window];
    const bool is_known =
        window.told && static_cast<std::int32_t>(said.changes - window.told_at) >= 0;
    if (said.flags == wire::kForGood) {
        if (is_known) drop(window);
        return true;
    }
    if (said.flags != 0 || !window.told || !is_idle(window)) return false;
    asks_again_.reclaims = {};
    asks_again_.pause = {};
    drop(window);
    return true;
}

bool LentWindows::withdraw(Connection& connection) noexcept {
    std::erase_if(ending_, [](const Grant& grant) { return grant.has_ended(); });
    // The peer cannot give back what it was not told of.
    tell(connection);
    const Clock::time_point now = Clock::now();
    if (lent_ == 0) {
        asks_again_.withdraws = now;
        return ending_.empty();
    }
    if (now < asks_again_.withdraws) return false;
    asks_again_.withdraws = now + std::chrono::milliseconds(1);
    for (std::size_t i = 0; i < windows_.size(); ++i)
        if (windows_[i].told) ask(connection, i, wire::kForGood);
    return false;
}

bool LentWindows::is_idle(const Window& window) const noexcept {
    for (std::uint32_t slot = 0; slot < window.memory->slots(); ++slot)
        if (window.memory->at(slot) == WindowMemory::filled) return false;
    return true;
}

// The memory lives on until the grant has ended, and received graphs.
void LentWindows::drop(Window& window) noexcept {
    std::uint64_t with_peer = 0;
    for (std::uint32_t slot = 0; slot < window.memory->slots(); ++slot)
        with_peer += window.memory->at(slot) == WindowMemory::with_peer;
    peer_slots_ -= with_peer;
    budget_->give(with_peer * wire::kSlotBytes);
    window.grant.end();
    std::erase_if(ending_, [](const Grant& grant) { return grant.has_ended(); });
    ending_.push_back(std::move(window.grant));
    window = Window{};
    if (--lent_ == 0) forget_lender();
}

void LentWindows::forget_lender() noexcept {
    if (lender_ == nullptr) return;
    lender_->link = nullptr;
    budget_->remove(lender_);
    lender_.reset();
}

void LentWindows::note_lender(Connection& connection) {
    auto lender = std::make_shared<Lender>();
    lender->link = object_link(connection).get();
    lender->lane = connection.lane().impl();
    budget_->add(lender);
    lender_ = std::move(lender);
}

}  // namespace verbatim::objects
