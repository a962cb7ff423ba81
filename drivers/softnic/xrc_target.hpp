// The place of an XRC target in its domain: whose shared receive queues it receives for. Of other
// queue pairs it does nothing. Threads: control path.
#pragma once

#include <memory>
#include <mutex>

#include "xrc_domain.hpp"

namespace verbatim::softnic {

class QueuePair;

class XrcTarget {
  public:
    // `domain`: null, it is no target.
    XrcTarget(std::shared_ptr<XrcDomain> domain, QueuePair& queue_pair,
              const DeviceCore& device) noexcept
        : domain_(std::move(domain)), queue_pair_(queue_pair), device_(device) {}
    XrcTarget(const XrcTarget&) = delete;
    XrcTarget& operator=(const XrcTarget&) = delete;

    explicit operator bool() const noexcept { return domain_ != nullptr; }
    // Before it leaves until after it joins again: no shared receive queue comes or goes meanwhile.
    std::unique_lock<std::mutex> hold() const;
    void join();
    void leave() noexcept;
    void write_no_more() noexcept;
    // The peer may name each queue of the domain.
    void name_queues() noexcept;

    // By the domain: a shared receive queue has come, or goes. One that a message was arriving in
    // fails that message.
    void name_queue(const XrcQueue& queue) noexcept;
    void forget_queue(const XrcQueue& queue) noexcept;

  private:
    const std::shared_ptr<XrcDomain> domain_;
    QueuePair& queue_pair_;
    const DeviceCore& device_;
};

}  // namespace verbatim::softnic
