// Layouts that the peer described, as far as they are kept: for explaining a mismatch only, so that
// the oldest may go. Threads: the connection's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace verbatim::objects {

class ToldLayouts {
  public:
    static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

    void keep(std::uint64_t fingerprint, const std::string& text) {
        if (!find(fingerprint).empty()) return;
        kept_.push_back({fingerprint, text});
        bytes_ += text.size();
        while (bytes_ > kMostBytes) {
            bytes_ -= kept_.front().text.size();
            kept_.pop_front();
        }
    }
    // Empty if it was not told or is no longer kept.
    std::string_view find(std::uint64_t fingerprint) const noexcept {
        for (const Told& told : kept_)
            if (told.fingerprint == fingerprint) return told.text;
        return {};
    }

  private:
    struct Told {
        std::uint64_t fingerprint;
        std::string text;
    };
    std::deque<Told> kept_;
    std::size_t bytes_ = 0;
};

}  // namespace verbatim::objects
