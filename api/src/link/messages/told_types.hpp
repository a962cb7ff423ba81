// Types that the peer has told of: layouts as text, and classes by number. Threads: the lane's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/objects/classes/told_classes.hpp>

#include "told_layouts.hpp"
#include "wire.hpp"

namespace verbatim::objects {

class ToldTypes {
  public:
    ToldTypes();
    ~ToldTypes();
    ToldTypes(const ToldTypes&) = delete;
    ToldTypes& operator=(const ToldTypes&) = delete;

    // Payloads of messages. Throw Breach.
    void take_layout(std::span<const std::byte> payload);
    void take_class(std::span<const std::byte> payload);

    // The layout that the sender uses, for explaining a mismatch.
    std::string_view layout(std::uint64_t fingerprint) const { return layouts_.find(fingerprint); }
    // Also for walks that outlive the connection.
    const std::shared_ptr<ToldClasses>& classes() const noexcept { return classes_; }

  private:
    ToldLayouts layouts_;
    wire::LayoutPart partial_{};  // the layout that is being told
    std::string partial_text_;
    const std::shared_ptr<ToldClasses> classes_ = std::make_shared<ToldClasses>();
};

}  // namespace verbatim::objects
