// The doors of a peer that queue pairs of this process use (completion_channel.hpp): one file for
// each, however many answers brought it. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "../host/wake_file.hpp"

namespace verbatim::softnic {

class PeerDoors {
  public:
    // The door with this number, of which an answer has brought the file.
    std::shared_ptr<const WakeFile> take(std::uint32_t number, Descriptor file) {
        const std::lock_guard lock(mutex_);
        std::erase_if(doors_, [](const auto& known) { return known.second.expired(); });
        if (auto known = doors_[number].lock()) return known;
        auto fresh = std::make_shared<const WakeFile>(std::move(file));
        doors_[number] = fresh;
        return fresh;
    }

  private:
    std::mutex mutex_;
    std::map<std::uint32_t, std::weak_ptr<const WakeFile>> doors_;
};

}  // namespace verbatim::softnic
