// Questions and results.
#include "fetches.hpp"

#include <algorithm>

namespace verbatim::softnic {

std::uint64_t next_part(std::uint64_t address, std::uint64_t left, std::uint64_t room) noexcept {
    constexpr std::uint64_t kSmallest = 4096, kWord = 8;
    if (room >= left) return left;
    return room < kSmallest ? 0 : room - (address + room) % kWord;
}

bool FetchList::begin(std::uint64_t bytes) noexcept {
    if (begun_ - taken_ == kQuestions) return false;
    list_[begun_++ % kQuestions] = {.total = bytes};
    return true;
}

std::uint64_t Fetches::ask(std::uint64_t address, std::uint32_t key,
                           const PieceList& into) noexcept {
    FetchList::Fetch& fetch = list_.newest();
    const auto ask = [&] { return ask_once(address, key, fetch); };
    return list_.ask_all(into, ask) ? fetch.number = last_ : 0;
}

// False: there is no room.
bool Fetches::ask_once(std::uint64_t address, std::uint32_t key, FetchList::Fetch& fetch) noexcept {
    ReadBody body{address + fetch.asked, key, 0};
    const std::uint64_t room = std::min(results_.room(), kMaxResult);
    const std::uint64_t part = next_part(body.address, fetch.total - fetch.asked, room);
    if (part == 0 || frames_.room() < sizeof(FrameHeader) + sizeof body) return false;
    body.bytes = static_cast<std::uint32_t>(part);
    last_ = frames_.begin(FrameKind::read, sizeof body);
    results_.note_question(last_, part);
    frames_.add(&body, sizeof body);
    frames_.commit();
    news_ = true;
    fetch.asked += part;
    return true;
}

std::uint64_t Fetches::ask(const RemoteAtomic& operation) noexcept {
    if (results_.room() < kAtomicResult || frames_.room() < sizeof(FrameHeader) + kAtomicBody ||
        !begin(kAtomicResult))
        return 0;
    last_ = frames_.begin(FrameKind::atomic, kAtomicBody);
    results_.note_question(last_, kAtomicResult);
    frames_.add(&operation, kAtomicBody);
    frames_.commit();
    news_ = true;
    list_.newest().atomic = true;
    return list_.newest().number = last_;
}

bool FetchList::has_result(std::uint64_t number) const noexcept {
    return begun_ != taken_ && list_[taken_ % kQuestions].number == number && results_.ready() != 0;
}

bool FetchList::take_result(const PieceList& into) noexcept {
    Fetch& fetch = list_[taken_ % kQuestions];
    if (fetch.atomic)
        take_word(into);
    else if (!take(fetch, into))
        return false;
    ++taken_;
    return true;
}

bool FetchList::take(Fetch& fetch, const PieceList& into) noexcept {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(results_.ready(), fetch.total - fetch.taken);
    results_.take(into, fetch.taken, bytes);
    fetch.taken += bytes;
    return fetch.taken == fetch.total;
}

// Of an atomic operation; results come whole.
void FetchList::take_word(const PieceList& into) noexcept {
    std::uint64_t before = 0;
    results_.take(before);
    const auto bytes = static_cast<std::uint32_t>(into.total);
    scatter(into, 0, AtomicResult(before, bytes, into.big_endian).data(), bytes);
}

}  // namespace verbatim::softnic
