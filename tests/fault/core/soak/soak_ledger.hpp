// The ledger is the model's memory of the soak test, shared by threads or processes: how many
// messages each side had accepted, how many it received, and how each connection was left.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "soak_text.hpp"

namespace verbatim::test::soak {

enum Left : std::uint8_t { kStays, kClosed, kBroken };

// Owner of each word: the side of its first index.
struct Entry {
    std::atomic<std::uint64_t> accepted[2][kStreams], received[2][kStreams];
    std::atomic<std::uint64_t> marks[2];  // that were taken
    std::atomic<bool> joined[2];
    std::atomic<Left> left[2];
};

struct Ledger {
    static constexpr std::size_t kMost = std::size_t{1} << 17;

    std::atomic<std::uint16_t> port;         // owner: side 0, which listens
    std::atomic<std::uint32_t> connections;  // owner: side 1, which calls
    std::atomic<bool> calls;                 // the caller waits to be accepted; owner: side 1
    std::atomic<bool> stop;                  // something failed
    std::atomic<bool> done[2], drained[2];   // all operations; all that was sent has come
    std::atomic<std::uint64_t> progress[2];
    std::atomic<std::uint32_t> doing[2];  // operation << 24 | connection, for the watchdog
    std::atomic<std::uint64_t> messages;  // that were received
    std::atomic<std::uint64_t> remote;    // reads and additions that were done
    std::atomic<std::uint64_t> moves;     // to other lanes; owner: side 1
    Entry entries[kMost];
};

// Pages that forked children share.
class SharedLedger {
  public:
    SharedLedger()
        : memory_(mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (memory_ == MAP_FAILED) std::abort();
    }
    ~SharedLedger() { munmap(memory_, sizeof(Ledger)); }
    SharedLedger(const SharedLedger&) = delete;
    SharedLedger& operator=(const SharedLedger&) = delete;
    // Zeroed pages are a ledger without entries.
    Ledger& operator*() const noexcept { return *static_cast<Ledger*>(memory_); }
    Ledger* operator->() const noexcept { return static_cast<Ledger*>(memory_); }

  private:
    void* memory_;
};

// The connections that are not over, for a run that hangs.
inline std::string to_text(const Ledger& ledger) {
    std::string text = "port " + std::to_string(ledger.port) + (ledger.calls ? ", called\n" : "\n");
    for (int side = 0; side < 2; ++side)
        text += "side " + std::to_string(side) + ": operation " +
                std::to_string(ledger.doing[side] >> 24) + " on connection " +
                std::to_string(ledger.doing[side] & 0xff'ffff) + ", done " +
                std::to_string(ledger.done[side]) + ", drained " +
                std::to_string(ledger.drained[side]) + ", progress " +
                std::to_string(ledger.progress[side]) + "\n";
    for (std::uint32_t id = 0; id < ledger.connections; ++id) {
        const Entry& entry = ledger.entries[id];
        if (entry.left[0] != kStays && entry.left[1] != kStays) continue;
        text += "connection " + std::to_string(id);
        for (int side = 0; side < 2; ++side) {
            text += " | side " + std::to_string(side) +
                    (entry.joined[side] ? " joined" : " unknown") + " left " +
                    std::to_string(entry.left[side]) + " marks " +
                    std::to_string(entry.marks[side]) + " accepted/received";
            for (std::size_t i = 0; i < kStreams; ++i)
                text += " " + std::to_string(entry.accepted[side][i]) + "/" +
                        std::to_string(entry.received[1 - side][i]);
        }
        text += "\n";
    }
    return text;
}

}  // namespace verbatim::test::soak
