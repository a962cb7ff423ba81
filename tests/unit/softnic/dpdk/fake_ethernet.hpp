// Ethernet devices in memory, two of which are joined by a cable. Threads: any.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "ports/dpdk/library/ethernet_device.hpp"

namespace verbatim::softnic::test {

using Frame = std::vector<std::byte>;

// Frames one way; and those that were received and not yet released.
struct Cable {
    std::mutex mutex;
    std::deque<Frame> frames;
    std::size_t held = 0;
};

class FakeEthernet final : public EthernetDevice {
  public:
    FakeEthernet(const MacAddress& mac, std::shared_ptr<Cable> in, std::shared_ptr<Cable> out)
        : mac_(mac), in_(std::move(in)), out_(std::move(out)) {}

    MacAddress mac() const noexcept override { return mac_; }
    std::size_t mtu() const noexcept override { return 1500; }
    std::size_t receive(std::span<ReceivedFrame> frames) noexcept override {
        const std::lock_guard lock(in_->mutex);
        std::size_t count = 0;
        for (; count < frames.size() && !in_->frames.empty(); ++count) {
            auto* const frame = new Frame(std::move(in_->frames.front()));
            in_->frames.pop_front();
            frames[count] = {frame->data(), frame->size(), frame};
            ++in_->held;
        }
        return count;
    }
    void release(std::span<void* const> owners) noexcept override {
        const std::lock_guard lock(in_->mutex);
        for (void* const owner : owners) delete static_cast<Frame*>(owner);
        in_->held -= owners.size();
    }
    std::size_t send(std::span<const OutgoingFrame> frames) noexcept override {
        const std::lock_guard lock(out_->mutex);
        for (const OutgoingFrame& frame : frames) {
            Frame bytes(frame.headers.begin(), frame.headers.end());
            for (const iovec& piece : frame.pieces) {
                const auto* const start = static_cast<const std::byte*>(piece.iov_base);
                bytes.insert(bytes.end(), start, start + piece.iov_len);
            }
            out_->frames.push_back(std::move(bytes));
        }
        return frames.size();
    }

  private:
    const MacAddress mac_;
    const std::shared_ptr<Cable> in_, out_;
};

}  // namespace verbatim::softnic::test
