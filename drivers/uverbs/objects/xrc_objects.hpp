// XRC domains as programs open them, and their targets. A domain that was opened with a file is one
// for all who open that device with that file in this process, and a target may be open several
// times; both may be used through several device files at once. Threads: as said at each.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "../../softnic/host/descriptor.hpp"
#include "../../softnic/xrc_domain.hpp"
#include "objects.hpp"

namespace verbatim::uverbs {

// A target, with the handles that programs have for it. Its engine belongs to the device file that
// made it. Threads: any; who calls with `mutex` held guards `pair`.
class XrcTarget {
  public:
    // For handles that come to be. Before the program hears of them.
    void add_opener(QueuePair& handle);
    // Of handles that go: the last one ends the target.
    void remove_opener(const QueuePair& handle) noexcept;
    // The engine goes. Handles that are left are of a queue pair that is not there any more.
    void end() noexcept;
    // To every handle.
    void post(AsyncEvent event) noexcept;

    std::mutex mutex;
    std::unique_ptr<QueuePair> pair;  // null: ended

  private:
    const std::uint64_t generation_ = softnic::fork_generation();
    std::mutex openers_mutex_;  // nothing is waited for under it; guards:
    std::vector<QueuePair*> openers_;
};

// Threads: any.
class XrcDomain {
  public:
    // `file`: keeps the inode that the domain goes by.
    explicit XrcDomain(softnic::Descriptor file = {}) : file_(std::move(file)) {}

    softnic::XrcDomain& engine() noexcept { return engine_; }
    void add_target(std::uint32_t number, const std::shared_ptr<XrcTarget>& target);
    // Null: there is none.
    std::shared_ptr<XrcTarget> find_target(std::uint32_t number);

  private:
    softnic::Descriptor file_;
    softnic::XrcDomain engine_;
    std::mutex mutex_;
    std::map<std::uint32_t, std::weak_ptr<XrcTarget>> targets_;  // by queue pair number
};

// The domain of `file` on this device (-1: one of its own); made if there is none and `flags`, as
// of open(), have O_CREAT. 0 or an errno, as linux has them.
int open_xrc_domain(int device, int file, int flags, std::shared_ptr<XrcDomain>& domain);

// A handle of a domain.
struct OpenXrcDomain {
    std::shared_ptr<XrcDomain> domain;
    std::uint32_t users = 0;
};

}  // namespace verbatim::uverbs
