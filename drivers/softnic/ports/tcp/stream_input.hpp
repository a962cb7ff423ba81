// Received bytes of a stream until they are frames. What comes is bounded: one frame that waits and
// what the same read brought behind it. Threads: the one inside the stream's gate.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "frame.hpp"
#include "stream_hello.hpp"

namespace verbatim::softnic {

class StreamInput {
  public:
    static constexpr std::size_t kBytes = 2 * kMaxFrameBytes;

    StreamInput() : data_(std::make_unique_for_overwrite<std::byte[]>(kBytes)) {}

    // Where the next bytes go; there is room for a frame at least once the whole ones were taken.
    std::span<std::byte> room() noexcept {
        if (begin_ == end_) begin_ = end_ = 0;
        if (kBytes - end_ < kMaxFrameBytes) {
            std::memmove(data_.get(), data_.get() + begin_, end_ - begin_);
            end_ -= begin_, begin_ = 0;
        }
        return {data_.get() + end_, kBytes - end_};
    }
    void add(std::size_t bytes) noexcept { end_ += bytes; }
    // What comes before all frames. False: it is not whole.
    bool take(StreamWelcome& welcome) noexcept {
        if (end_ - begin_ < sizeof welcome) return false;
        std::memcpy(&welcome, data_.get() + begin_, sizeof welcome);
        begin_ += sizeof welcome;
        return true;
    }
    FrameState next(Frame& frame) const noexcept {
        return next_frame({data_.get() + begin_, end_ - begin_}, frame);
    }
    void take(const Frame& frame) noexcept { begin_ += frame.header.bytes; }

  private:
    const std::unique_ptr<std::byte[]> data_;
    std::size_t begin_ = 0, end_ = 0;
};

}  // namespace verbatim::softnic
