// The memory of a peer as a link has mapped it: the peer's key table, and its memory files.
// Threads: any. Fetching asks the peer; the const noexcept members are for the data path.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "../host/page_view.hpp"
#include "../host/shared_memory.hpp"
#include "../keys/key_table_view.hpp"
#include "link_questions.hpp"

namespace verbatim::softnic {

class PeerMemory {
  public:
    // `times`: of what the data path asks for. `object` belongs to the link, as the questions do.
    PeerMemory(LinkQuestions& questions, const std::string& object,
               const LinkQuestions::Times& times) noexcept
        : questions_(questions), object_(object), times_(times) {}
    ~PeerMemory();
    PeerMemory(const PeerMemory&) = delete;
    PeerMemory& operator=(const PeerMemory&) = delete;

    // When the link comes up: the first part of the key table; the others and all files. Throws
    // Error.
    void set_first_keys(std::shared_ptr<SharedMemory> keys);
    void fetch_all(Instant deadline);
    // Whatever is registered then costs the data path no system call later.
    void place_all(Instant deadline) noexcept;

    // Asks for a file that was registered later. ok: place() knows it now. would_block: the peer
    // has not answered yet; again later. timeout: it has not for long. permission_denied: it gives
    // none, since the memory has gone, or for want of a descriptor.
    Errc fetch_file(std::uint64_t number) noexcept;
    // Asks for the part of the key table that the key is in. ok: keys() knows it now. would_block,
    // timeout: as above.
    Errc fetch_keys(std::uint32_t key) noexcept;

    const KeyTableView& keys() const noexcept { return keys_; }
    // Where the granted range lies in this process, every page of it present unless its file is
    // sparse. Null: its file is not
    // known here, too short, or the machine is out of memory. One system call per key and
    // registration, none afterwards.
    std::byte* place(const Grant& grant) noexcept;

  private:
    // One of the two.
    struct File {
        std::uint64_t number;
        std::shared_ptr<SharedMemory> memory;
        std::unique_ptr<PageView> pages;
        const File* next;
    };

    const File* find(std::uint64_t number, std::uint64_t min_bytes) const noexcept {
        const File* file = files_.load(std::memory_order_acquire);
        while (file != nullptr &&
               (file->number != number || (file->memory && file->memory->bytes() < min_bytes)))
            file = file->next;
        return file;
    }
    void fetch_chunk(std::uint32_t chunk, Instant deadline);
    void add_chunk(std::uint32_t chunk, const LinkQuestions::Answer& answer);
    void fetch_all_files(Instant deadline);
    std::uint64_t add_files(LinkQuestions::Answer answer);

    LinkQuestions& questions_;
    const std::string& object_;
    const LinkQuestions::Times times_;
    std::mutex mutex_;  // guards additions
    KeyTableView keys_;
    std::atomic<const File*> files_{nullptr};  // newest first; nodes are freed with the link
    // Per key, by chunks: version of the entry whose range was populated. Set before the chunk is
    // in keys_.
    using Versions = std::unique_ptr<std::atomic<std::uint64_t>[]>;
    std::array<Versions, kMostChunks> populated_;
};

}  // namespace verbatim::softnic
