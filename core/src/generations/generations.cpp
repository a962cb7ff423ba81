// The newest generation of each client, and the end of its older connection.
#include "generations.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim {
namespace {

[[noreturn]] void refuse_late(const std::string& object, std::uint64_t came, std::uint64_t known) {
    throw Error(
        Errc::protocol_error, object,
        fmt::format("its hello has generation {}, and generation {} of that client is known", came,
                    known),
        "nothing: the client has dialled again since");
}

}  // namespace

std::size_t Generations::size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
}

Generations::Entry* Generations::find(const Id& id) {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &*found->second;
}

// The most recently seen from now on.
Generations::Entry& Generations::entry_of(const Id& id) {
    if (const auto found = by_id_.find(id); found != by_id_.end()) {
        entries_.splice(entries_.end(), entries_, found->second);
        return entries_.back();
    }
    forget_old();
    entries_.push_back({id, 0, nullptr});
    by_id_[id] = std::prev(entries_.end());
    return entries_.back();
}

// A client that has a connection is never forgotten: its messages may still be handed out.
void Generations::forget_old() {
    if (entries_.size() < kMost) return;
    const auto oldest = std::find_if(entries_.begin(), entries_.end(),
                                     [](const Entry& one) { return one.live == nullptr; });
    if (oldest == entries_.end()) return;
    by_id_.erase(oldest->id);
    entries_.erase(oldest);
}

std::shared_ptr<ClientSession> Generations::admit(const ClientIdentity& who,
                                                  const std::string& object) {
    auto session = std::make_shared<ClientSession>(shared_from_this(), who);
    const std::lock_guard lock(mutex_);
    Entry& entry = entry_of(who.id);
    if (who.generation <= entry.newest) refuse_late(object, who.generation, entry.newest);
    entry.newest = who.generation;
    if (entry.live != nullptr) entry.live->ask_to_end();
    return session;
}

bool ClientSession::may_connect(const std::string& object) const {
    const std::lock_guard lock(of_->mutex_);
    const auto* const entry = of_->find(who_.id);
    if (entry == nullptr) return true;  // forgotten meanwhile; attach() remembers it again
    if (entry->newest != who_.generation) refuse_late(object, who_.generation, entry->newest);
    return entry->live == nullptr;
}

void ClientSession::attach(const std::shared_ptr<Lane::Impl>& lane, Ended ended,
                           const std::string& object) {
    const std::lock_guard lock(of_->mutex_);
    auto& entry = of_->entry_of(who_.id);
    if (entry.newest > who_.generation || entry.live != nullptr)
        refuse_late(object, who_.generation, entry.newest);
    entry.newest = who_.generation;
    entry.live = shared_from_this();
    lane_ = lane->weak_from_this();
    ended_ = ended;
}

void ClientSession::moved_to(const std::shared_ptr<Lane::Impl>& lane) {
    const std::lock_guard lock(of_->mutex_);
    lane_ = lane->weak_from_this();
    if (is_asked_) ask_to_end();
}

void ClientSession::detach() noexcept {
    const std::lock_guard lock(of_->mutex_);
    ended_ = {};
    auto* const entry = of_->find(who_.id);
    if (entry == nullptr || entry->live.get() != this) return;
    const auto kept = std::move(entry->live);  // a caller has one, too
    entry->live = nullptr;
}

// Behind the lock. Where the connection moves meanwhile, moved_to() asks again.
void ClientSession::ask_to_end() {
    is_asked_ = true;
    const auto lane = lane_.lock();
    if (lane == nullptr) return;
    Lane(lane).submit(
        [self = shared_from_this(), at = lane.get()]() noexcept { self->end_on(at); });
}

void ClientSession::end_on(const Lane::Impl* lane) noexcept {
    Ended ended;
    {
        const std::lock_guard lock(of_->mutex_);
        if (lane_.lock().get() != lane) return;
        ended = ended_;
    }
    if (ended.end != nullptr) ended.end(ended.owner);
}

}  // namespace verbatim
