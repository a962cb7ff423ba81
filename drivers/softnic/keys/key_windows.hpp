// Memory windows in a key table: opened onto regions, closed, invalidated, by the engines of
// several queue pairs at once. Threads: any. What is noexcept and returns a KeyUpdate is for the
// data path: no lock, nobody waits.
#pragma once

#include <cstdint>

#include "../../softqueue/failure_text.hpp"
#include "key_entries.hpp"

namespace verbatim::softnic {

// What became of a request to change a window. Busy: another thread is changing it just now; the
// same call again will succeed or be refused. Revoked: done, and a key that worked before does not
// any more; its memory is free after a Revocation.
enum class KeyUpdate : std::uint8_t { done, refused, busy, revoked };

// A window that is to be opened.
struct WindowOpening {
    std::uint32_t window_key = 0;  // its index counts
    std::uint8_t variant = 0;      // low byte of its key from now on
    WindowType type = WindowType::queue_pair;
    std::uint32_t queue_pair = 0;  // that opens it
    std::uint32_t domain = 0;      // of that one
    std::uint32_t region_key = 0;
    std::uint64_t address = 0, bytes = 0;  // in the owner's memory
    std::uint64_t start = 0;               // what peers call `address`
    Access access = Access::local_read;
};

class KeyWindows {
  public:
    explicit KeyWindows(KeyEntries& entries) noexcept : entries_(entries) {}
    KeyWindows(const KeyWindows&) = delete;
    KeyWindows& operator=(const KeyWindows&) = delete;

    // Under the table's lock, as the next two: a closed window's key. Throws as KeyEntries::take().
    std::uint32_t add(WindowType type, std::uint32_t domain);
    void remove(std::uint32_t key) noexcept;
    // After `region` was retired.
    void close_all_of(std::uint32_t region) noexcept;

    KeyUpdate open(const WindowOpening& opening, FailureText& failure) noexcept;
    // Of type 1.
    KeyUpdate close(std::uint32_t window_key, FailureText& failure) noexcept;
    // Of type 2, by the queue pair that opened it.
    KeyUpdate invalidate(std::uint32_t key, std::uint32_t queue_pair,
                         FailureText& failure) noexcept;

  private:
    // Makes an entry odd, and even again.
    class Change;

    bool find_region(const WindowOpening& opening, Grant& region, FailureText& failure) noexcept;
    bool hold(std::uint32_t region) noexcept;
    void let_go(std::uint32_t index) noexcept;
    KeyUpdate shut(std::uint32_t index) noexcept;

    KeyEntries& entries_;
};

}  // namespace verbatim::softnic
