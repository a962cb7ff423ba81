// What one small operation costs altogether: post, execution, completion, poll, between two queue
// pairs of one process. Shared by the program that takes the time and the one that callgrind
// counts.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace verbatim::bench {

class SmallOperation {
  public:
    static constexpr std::uint32_t kBatch = 16;
    virtual ~SmallOperation() = default;
    // Posts kBatch operations, each signaled, and polls until they are complete.
    virtual void run_batch() = 0;
};

struct NamedOperation {
    std::string_view name, subject;
    std::unique_ptr<SmallOperation> (*make)();
    bool counted = true;  // its instructions; else making it takes minutes under callgrind
};
// A write of 8 bytes and a send of 8 bytes, with its receive; the floor is what libmlx5 needs to
// post and to poll the write, with a device that does nothing: the difference is the engine.
// Besides: a poll that finds nothing, with so many connected and idle queue pairs on one completion
// queue; or on eight, each polled once.
extern const NamedOperation kSmallOperations[8];

}  // namespace verbatim::bench
