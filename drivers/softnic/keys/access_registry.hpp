// The access words of a device: of all that may touch memory by its keys. A word whose queue pair
// has gone stays as long as a peer is inside: what that peer still uses is in quarantine. Threads:
// any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "../host/membarrier.hpp"
#include "../host/peer_process.hpp"

namespace verbatim::softnic {

// One access word (access_sequence.hpp) and its writer. Shared by its queue pair and those who wait
// for it; in one registry.
class AccessWord {
  public:
    // In this process' own memory.
    explicit AccessWord(std::uint32_t queue_pair) noexcept
        : word_(&own_), queue_pair_(queue_pair) {}
    // In memory that a peer writes, which `keeps` keeps.
    AccessWord(const std::atomic<std::uint64_t>& word, std::shared_ptr<const void> keeps,
               std::uint32_t queue_pair) noexcept
        : word_(&word), keeps_(std::move(keeps)), queue_pair_(queue_pair) {}
    AccessWord(const AccessWord&) = delete;
    AccessWord& operator=(const AccessWord&) = delete;

    std::uint64_t value() const noexcept { return word_->load(std::memory_order_acquire); }
    std::atomic<std::uint64_t>& own() noexcept { return own_; }
    std::uint32_t queue_pair() const noexcept { return queue_pair_; }

    // Which process stores into it; null: this one, or none yet.
    void set_writer(std::shared_ptr<const PeerProcess> writer) noexcept {
        const std::lock_guard lock(mutex_);
        writer_ = std::move(writer);
    }
    std::shared_ptr<const PeerProcess> writer() const noexcept {
        const std::lock_guard lock(mutex_);
        return writer_;
    }
    // Some system calls.
    bool writer_ended() const noexcept {
        const auto process = writer();
        return process != nullptr && process->ended();
    }

    // The value that was waited for in vain.
    void give_up_on(std::uint64_t value) noexcept { given_up_.store(value); }
    bool given_up_on(std::uint64_t value) const noexcept { return given_up_.load() == value; }

  private:
    friend class AccessRegistry;
    alignas(64) std::atomic<std::uint64_t> own_{0};
    alignas(64) const std::atomic<std::uint64_t>* word_;
    std::shared_ptr<const void> keeps_;
    mutable std::mutex mutex_;  // guards writer_
    std::shared_ptr<const PeerProcess> writer_;
    const std::uint32_t queue_pair_;
    std::atomic<std::uint64_t> given_up_{0};  // 0 is even
    std::size_t place_ = 0;                   // in the registry's list; guarded by its lock
};

struct RevocationOptions {
    std::chrono::milliseconds patience{2000};  // with a process that seems to be stopped
    bool barriers = true;                      // those of the process, where the kernel has them
};

class AccessRegistry {
  public:
    explicit AccessRegistry(const RevocationOptions& options = {}) noexcept
        : patience_(options.patience), barriers_(options.barriers && join_barriers()) {}

    std::chrono::milliseconds patience() const noexcept { return patience_; }
    // Revokers raise barriers, and this process takes part in those of others.
    bool barriers() const noexcept { return barriers_; }

    void add(std::shared_ptr<AccessWord> word);
    // Of a queue pair that goes. The word stays while it is odd and its writer has not ended.
    void remove(AccessWord& word) noexcept;

    // Calls function(shared_ptr<AccessWord>) for each, until it returns false. False: another
    // thread is changing the list just now, and nothing was done; nobody waits. No allocation.
    template <class Function>
    bool try_visit(Function&& function) noexcept {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock()) return false;
        for (const auto& word : words_)
            if (!function(word)) break;
        return true;
    }
    std::size_t size() const noexcept {
        const std::lock_guard lock(mutex_);
        return words_.size();
    }

  private:
    void erase(AccessWord& word) noexcept;
    void forget_ended() noexcept;

    const std::chrono::milliseconds patience_;
    const bool barriers_;
    mutable std::mutex mutex_;  // guards what follows, and the places
    std::vector<std::shared_ptr<AccessWord>> words_;
    std::vector<AccessWord*> left_;  // those whose queue pair has gone, among them
};

}  // namespace verbatim::softnic
