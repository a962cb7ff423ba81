// The table of a device's links: each peer has one, which all queue pairs share. Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "control_thread.hpp"
#include "link.hpp"

namespace verbatim::softnic {

class LinkTable {
  public:
    explicit LinkTable(std::string device_name) : device_name_(std::move(device_name)) {}
    // The link to the peer's device, from now on watched by the control thread, which lives as long
    // as `device`. Throws Error as Link::open.
    std::shared_ptr<Link> get(const QueuePairAddress& peer, const LinkOptions& options,
                              Instant deadline, ControlThread& control,
                              std::shared_ptr<void> device);
    // Null: there is none yet.
    std::shared_ptr<Link> known(const Nonce& peer) {
        const std::lock_guard lock(mutex_);
        return find(peer);
    }

  private:
    std::shared_ptr<Link> find(const Nonce& peer);

    const std::string device_name_;
    std::mutex mutex_;  // guards what follows
    std::map<Nonce, std::weak_ptr<Link>> links_;
};

}  // namespace verbatim::softnic
