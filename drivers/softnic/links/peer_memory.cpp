// Fetching and mapping of what a peer has registered.
#include "peer_memory.hpp"

#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {
namespace {

LinkMessage question_for_keys(std::uint32_t chunk) noexcept {
    LinkMessage get;
    get.op = LinkOp::get_keys;
    get.chunk = chunk;
    return get;
}

}  // namespace

PeerMemory::~PeerMemory() {
    const File* file = files_.load(std::memory_order_relaxed);
    while (file != nullptr) delete std::exchange(file, file->next);
}

void PeerMemory::set_first_keys(std::shared_ptr<SharedMemory> keys) {
    populated_[0] = std::make_unique<std::atomic<std::uint64_t>[]>(kChunkKeys);
    keys_ = KeyTableView(std::move(keys));
}

void PeerMemory::fetch_chunk(std::uint32_t chunk, Instant deadline) {
    add_chunk(chunk, questions_.ask(question_for_keys(chunk), LinkOp::keys, deadline));
}

void PeerMemory::add_chunk(std::uint32_t chunk, const LinkQuestions::Answer& answer) {
    if (answer.files.size() != 1)
        throw Error(Errc::protocol_error, object_, "the answer carries no keys");
    auto memory = SharedMemory::map(answer.files[0].get(), kKeyChunkBytes, Mapping::read_only,
                                    object_ + " key table");
    auto populated = std::make_unique<std::atomic<std::uint64_t>[]>(kChunkKeys);
    const std::lock_guard lock(mutex_);
    if (keys_.has(chunk)) return;  // another thread was faster
    populated_[chunk] = std::move(populated);
    keys_.set(chunk, std::move(memory));
}

void PeerMemory::fetch_all(Instant deadline) {
    for (std::uint32_t chunk = 1; chunk < keys_.chunks(); ++chunk) fetch_chunk(chunk, deadline);
    fetch_all_files(deadline);
}

Errc PeerMemory::fetch_keys(std::uint32_t key) noexcept try {
    const std::uint32_t chunk = (key >> 8) / kChunkKeys;
    const auto answer = questions_.ask_or_return(question_for_keys(chunk), LinkOp::keys, times_);
    if (!answer) return Errc::would_block;
    add_chunk(chunk, *answer);
    return Errc::ok;
} catch (const Error& error) {
    log::warn("{}", error.what());
    return error.code();
} catch (...) {
    return Errc::out_of_memory;
}

void PeerMemory::fetch_all_files(Instant deadline) {
    LinkMessage list;
    list.op = LinkOp::list_files;
    for (;;) {
        LinkQuestions::Answer answer = questions_.ask(list, LinkOp::files, deadline);
        const std::size_t count = answer.files.size();
        const std::uint64_t last = add_files(std::move(answer));
        if (count < kFilesPerMessage) return;
        if (last <= list.file)
            throw Error(Errc::protocol_error, object_, "the peer lists the same files again");
        list.file = last;
    }
}

Errc PeerMemory::fetch_file(std::uint64_t number) noexcept try {
    LinkMessage get;
    get.op = LinkOp::get_file;
    get.file = number;
    auto answer = questions_.ask_or_return(get, LinkOp::files, times_);
    if (!answer) return Errc::would_block;
    if (answer->message.count == 0) return Errc::permission_denied;
    return add_files(std::move(*answer)) == number ? Errc::ok : Errc::protocol_error;
} catch (const Error& error) {
    log::warn("{}", error.what());
    return error.code();
} catch (...) {
    return Errc::out_of_memory;
}

// Maps what came; returns the last number.
std::uint64_t PeerMemory::add_files(LinkQuestions::Answer answer) {
    const LinkMessage& message = answer.message;
    if (message.count > kFilesPerMessage || message.count != answer.files.size())
        throw Error(Errc::protocol_error, object_, "the answer's files do not match their count");
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < message.count; ++i) {
        last = message.files[i];
        const std::string what =
            fmt::format("{} memory file {}", object_, last & ~(kPageFile | kSparseFile));
        auto file = std::make_unique<File>();
        file->number = last;
        if ((last & kPageFile) != 0)
            file->pages = std::make_unique<PageView>(std::move(answer.files[i]), what);
        else
            file->memory = SharedMemory::map(answer.files[i].get(), 0, Mapping::arena, what);
        const std::lock_guard lock(mutex_);
        file->next = files_.load(std::memory_order_relaxed);
        files_.store(file.release(), std::memory_order_release);
    }
    return last;
}

std::byte* PeerMemory::place(const Grant& grant) noexcept {
    std::uint64_t end = 0;
    if (__builtin_add_overflow(grant.file_offset, grant.bytes, &end)) return nullptr;
    const File* const known = find(grant.file, end);
    if (known == nullptr) return nullptr;
    std::byte* const data = known->pages != nullptr
                                ? known->pages->place(grant.file_offset, grant.bytes)
                                : known->memory->data() + grant.file_offset;
    if (data == nullptr || grant.is_sparse()) return data;
    const std::uint32_t index = grant.key >> 8;
    std::atomic<std::uint64_t>& populated = populated_[index / kChunkKeys][index % kChunkKeys];
    if (populated.load(std::memory_order_relaxed) != grant.version) {
        if (known->pages != nullptr ? !PageView::populate(data, grant.bytes)
                                    : !known->memory->populate(grant.file_offset, grant.bytes))
            return nullptr;
        populated.store(grant.version, std::memory_order_relaxed);
    }
    return data;
}

// Large arenas take their time (page tables), so this stops half-way to the deadline; what is left
// over is done on first use.
void PeerMemory::place_all(Instant deadline) noexcept {
    const Instant start = std::chrono::steady_clock::now();
    const Instant enough = start + (deadline - start) / 2;
    for (std::uint32_t index = kFirstKeyIndex; index < kMostKeys; ++index) {
        if (index % kChunkKeys == 0 && !keys_.has(index / kChunkKeys)) return;
        Grant grant;
        if (!keys_.find_index(index, grant) || grant.file == 0) continue;
        if (std::chrono::steady_clock::now() >= enough) return;
        place(grant);
    }
}

}  // namespace verbatim::softnic
