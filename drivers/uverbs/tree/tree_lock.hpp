// The lock of a device tree, held by every process that uses it. It belongs to an open file that is
// mapped and has no descriptor: so programs that close all their descriptors keep it, children
// inherit it, and it goes when the last of them ends or becomes another program. Threads: one.
#pragma once

#include <string>

namespace verbatim::uverbs {

class TreeLock {
  public:
    static constexpr const char* kFile = "lock";

    TreeLock() = default;
    // Holds the tree; where that cannot be, nothing does.
    explicit TreeLock(const std::string& root) noexcept;
    TreeLock(TreeLock&& other) noexcept;
    TreeLock& operator=(TreeLock&& other) noexcept;
    ~TreeLock() { release(); }

    // Children that inherited it hold the tree still.
    void release() noexcept;
    // Whether no process holds it.
    static bool unused(const std::string& root) noexcept;

  private:
    void* page_ = nullptr;
};

}  // namespace verbatim::uverbs
