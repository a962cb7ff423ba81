// A cycle search watches the sender's walk over a graph that was called acyclic. It is Brent's, on
// the path of the walk. The walk visits a shared object once for each reference, so a cycle has no
// end. Threads: one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

class Packing;
struct PackFrame;

class CycleSearch {
  public:
    using Step = void (*)(Packing&, const PackFrame&);
    // The steps that a walk has for objects of one type; null: none.
    struct StepsOfType {
        TypeInfoFunction info = nullptr;
        Step one = nullptr, many = nullptr, in_excerpts = nullptr;
    };
    // What a frame is of: objects, or the rest of a container.
    struct Place {
        Step step = nullptr;
        const std::byte* source = nullptr;
        std::uint64_t count = 0;
        bool operator==(const Place&) const = default;
    };

    // Offset in the image from which on it searches: before anything has left.
    static constexpr std::uint64_t kFrom = std::uint64_t{128} << 10;
    // It searches in a quarter of the walk, in ever longer parts. So a cycle is found while the
    // image has some twenty times its bytes.
    static bool is_due(std::uint64_t image_bytes) noexcept {
        const std::uint64_t begun = std::bit_floor(image_bytes);
        return image_bytes >= kFrom && image_bytes - begun < begun / 4;
    }
    // Another part of the walk begins, at that step.
    void begin_part(std::uint64_t steps) noexcept {
        is_on_ = true;
        if (steps - since_ <= most_steps_) return;
        most_steps_ *= 2;
        depth_ = kNowhere;
    }
    void pause() noexcept {
        depth_ = kNowhere;
        is_on_ = false;
    }
    bool is_on() const noexcept { return is_on_; }
    // The walk takes a frame off its stack, which has `depth` more. What the frame leads to lies
    // above them, until all of it is done. So the same place again before that is a cycle, which
    // sharing is not. The walk leaves everything that leads into no cycle: so it comes to a place
    // in one. True: a cycle was found.
    [[gnu::always_inline]] bool enters(const Place& place, std::size_t depth,
                                       std::uint64_t steps) noexcept {
        if (depth < depth_) {
            place_ = place;
            depth_ = depth;
            since_ = steps;
            return false;
        }
        if (place.source != place_.source || place != place_) return false;
        has_found_ = true;
        return true;
    }
    // A step of the cycle that was found, or null.
    Step found() const noexcept { return has_found_ ? place_.step : nullptr; }
    // What was found leads to itself; `otherwise`: where the step is of no such type.
    [[noreturn]] void refuse(std::span<const StepsOfType> types, std::string_view otherwise) const;

  private:
    static constexpr std::size_t kNowhere = ~std::size_t{0};

    Place place_;  // the walk is in what it leads to
    std::size_t depth_ = kNowhere;
    std::uint64_t since_ = 0, most_steps_ = 1024;
    bool has_found_ = false, is_on_ = false;
};

}  // namespace verbatim::objects
