// File descriptors of the library. A forked child must not keep them: a socket that stays open in
// the child would hide the parent's death from its peers. So the child's copies are closed by a
// fork handler, and objects that the child inherited know that their descriptors, locks and threads
// are not theirs any more. Threads: any; a Descriptor itself has one owner.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace verbatim {

// Moves in every forked child, once count_forks() was called; a Descriptor calls it. Objects
// remember the value at their birth. Inline, because the data path asks for it.
inline constinit std::atomic<std::uint64_t> g_fork_generation{0};
inline std::uint64_t fork_generation() noexcept {
    return g_fork_generation.load(std::memory_order_relaxed);
}

void count_forks();

// Guards the process-wide list of mappings; lives here because fork() must not happen while it is
// held. Taken before the lock that Descriptor takes.
std::mutex& mapping_mutex();

// Owns one descriptor and closes it, but never a number that was inherited through fork().
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd);
    Descriptor(Descriptor&& other) noexcept
        : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        std::swap(generation_, other.generation_);
        return *this;
    }
    ~Descriptor() { close(); }

    // -1 in a forked child: the number may be that of another file there.
    int get() const noexcept { return generation_ == fork_generation() ? fd_ : -1; }
    explicit operator bool() const noexcept { return get() >= 0; }
    void close() noexcept;

  private:
    int fd_ = -1;
    std::uint64_t generation_ = 0;
};

}  // namespace verbatim
