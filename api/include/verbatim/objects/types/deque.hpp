// std::deque, std and std::pmr. The elements of each of its buffers are sent together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/traits/container.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class E, class A>
struct Trait<std::deque<E, A>> : detail::ContainerTrait<A, E, OwnedArray> {
    using Container = std::deque<E, A>;
    using Trait::ContainerTrait::kImageAt;
    using Trait::ContainerTrait::kPolymorphic;

    static std::string spell() { return Trait::spell_container("deque"); }
    template <class S>
    static void pack(S& sender, const Container& deque, Slot) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&deque) + kImageAt;
        const Extents extents(*reinterpret_cast<const DequeImage*>(bytes));
        if (extents.end == extents.start) return;
        if constexpr (ByAddress<S>) {
            look_at_buffers(sender, *reinterpret_cast<const DequeImage*>(bytes), extents);
        } else {
            sender.reserve(bytes_of_map(extents), alignof(std::byte*));
            sender.put_off({&pack_buffers<S>, bytes, offset_of(0), extents.buffers()});
        }
    }
    template <class R>
    static void mend(R& receiver, Container& deque) {
        std::byte* const bytes = forbid_allocation<kPolymorphic>(&deque);
        auto& image = *reinterpret_cast<DequeImage*>(bytes);
        const Extents extents(image);
        if (!extents.are_valid()) receiver.corrupt("a deque's ends do not fit its elements");
        if (extents.end == extents.start) {
            image = {};
        } else if constexpr (ByAddress<R>) {
            verify_buffers(receiver, image, extents);
        } else {
            image.map_entries = 0;
            image.map = reinterpret_cast<std::byte**>(
                receiver.reserve(bytes_of_map(extents), alignof(std::byte*)));
            receiver.put_off({&mend_buffers<R>, bytes, extents.buffers(), 0});
        }
    }

  private:
    static constexpr std::uint64_t kBuffer = kDequeBuffer<E>;

    // Places of elements, counted from the start of the first buffer.
    struct Extents {
        std::uint64_t start, tail, entries, end;

        explicit Extents(const DequeImage& image) noexcept
            : start(distance(image.start.first, image.start.at) / sizeof(E)),
              tail(distance(image.finish.first, image.finish.at) / sizeof(E)),
              entries(distance(image.start.entry, image.finish.entry) / sizeof(std::byte*)),
              end(entries * kBuffer + tail) {}
        bool are_valid() const noexcept {
            return start < kBuffer && tail < kBuffer && entries < std::uint64_t{1} << 40 &&
                   end >= start;
        }
        std::uint64_t buffers() const noexcept { return (end + kBuffer - 1) / kBuffer; }
        // Of buffer `i`: its first element, and how many it has.
        std::uint64_t first_of(std::uint64_t i) const noexcept { return i == 0 ? start : 0; }
        std::uint64_t count_of(std::uint64_t i) const noexcept {
            return std::min(kBuffer, end - i * kBuffer) - first_of(i);
        }
    };
    static std::uint64_t distance(const void* from, const void* to) noexcept {
        return reinterpret_cast<std::uint64_t>(to) - reinterpret_cast<std::uint64_t>(from);
    }
    // An iterator that goes on behind the last buffer reads one entry more.
    static std::uint64_t bytes_of_map(const Extents& extents) noexcept {
        return (extents.buffers() + 1) * sizeof(std::byte*);
    }

    // The frame's offset has the number of the next buffer. It is odd, as those of objects are not.
    static constexpr std::uint64_t offset_of(std::uint64_t buffer) noexcept {
        return 2 * buffer + 1;
    }
    // Frames are overwritten by what is put off.
    template <class S>
    static void pack_buffers(typename S::Walk& walk, const typename S::Frame& frame) {
        auto& sender = static_cast<S&>(walk);
        const auto& image = *reinterpret_cast<const DequeImage*>(frame.source);
        const Extents extents(image);
        const std::uint64_t first = frame.offset / 2, now = std::min(frame.count, kStepObjects);
        if (frame.count > now)
            sender.put_off(
                {&pack_buffers<S>, frame.source, offset_of(first + now), frame.count - now});
        for (std::uint64_t i = first; i < first + now; ++i) {
            const auto* buffer = reinterpret_cast<const E*>(image.start.entry[i]);
            sender.template owned<E>(buffer + extents.first_of(i), extents.count_of(i));
        }
    }
    // The frame's state is the number of the next buffer.
    template <class R>
    static void mend_buffers(typename R::Walk& walk, const typename R::Frame& frame) {
        auto& receiver = static_cast<R&>(walk);
        auto& image = *reinterpret_cast<DequeImage*>(frame.at);
        const Extents extents(image);
        const std::uint64_t first = frame.state, count = frame.count;
        const std::uint64_t now = std::min(count, kStepObjects);
        if (count > now) receiver.put_off({&mend_buffers<R>, frame.at, count - now, first + now});
        for (std::uint64_t i = first; i < first + now; ++i)
            image.map[i] =
                reinterpret_cast<std::byte*>(receiver.template owned<E>(extents.count_of(i)));
        if (count == now) finish(image, extents);
    }
    // In composed messages the map and the buffers stay where they are.
    template <class S>
    static void look_at_buffers(S& sender, const DequeImage& image, const Extents& extents) {
        sender.room(image.map, image.map_entries * sizeof(std::byte*));
        for (std::uint64_t i = 0; i < extents.buffers(); ++i) {
            const auto* buffer = reinterpret_cast<const E*>(image.start.entry[i]);
            sender.room(buffer, kBuffer * sizeof(E));
            sender.template inside<E>(buffer + extents.first_of(i), extents.count_of(i));
        }
    }
    template <class R>
    static void verify_buffers(R& receiver, DequeImage& image, const Extents& extents) {
        const std::uint64_t first = distance(image.map, image.start.entry) / sizeof(std::byte*);
        if (image.map_entries >= std::uint64_t{1} << 40 || first >= image.map_entries ||
            extents.entries >= image.map_entries - first)
            receiver.corrupt("a deque's ends do not fit its map");
        image.map = reinterpret_cast<std::byte**>(
            receiver.room(image.map, image.map_entries * sizeof(std::byte*)));
        for (std::uint64_t i = 0; i < extents.buffers(); ++i) {
            std::byte*& entry = image.map[first + i];
            std::byte* const buffer = receiver.room(entry, kBuffer * sizeof(E));
            (void)receiver.template inside<E>(moved(entry, bytes_of(extents.first_of(i))),
                                              extents.count_of(i));
            entry = buffer;
        }
        const std::uint64_t last = first + extents.entries;
        if (extents.tail == 0) image.map[last] = place_of_end(image, last);
        image.start = end_at(image, first, moved(image.map[first], bytes_of(extents.start)));
        image.finish = end_at(image, last, moved(image.map[last], bytes_of(extents.tail)));
    }
    static std::int64_t bytes_of(std::uint64_t elements) noexcept {
        return static_cast<std::int64_t>(elements * sizeof(E));
    }
    // Buffers that are not full on both sides reach into memory of others, which nothing looks at.
    static void finish(DequeImage& image, const Extents& extents) noexcept {
        std::byte* const start = image.map[0];
        image.map[0] = moved(start, -static_cast<std::int64_t>(extents.start * sizeof(E)));
        const std::uint64_t last = extents.buffers();
        image.map[last] = place_of_end(image, last);
        image.map_entries = last + 1;
        image.start = end_at(image, 0, start);
        const std::uint64_t entry = extents.end / kBuffer;
        image.finish = end_at(
            image, entry,
            moved(image.map[entry], static_cast<std::int64_t>(extents.end % kBuffer * sizeof(E))));
    }
    // An end behind a full buffer has a place of its own, in the map: no buffer begins there, while
    // one may begin where the full one ends.
    static std::byte* place_of_end(const DequeImage& image, std::uint64_t entry) noexcept {
        return reinterpret_cast<std::byte*>(image.map + entry);
    }
    static DequeEnd end_at(DequeImage& image, std::uint64_t entry, std::byte* at) noexcept {
        std::byte* const first = image.map[entry];
        return {at, first, moved(first, kBuffer * sizeof(E)), image.map + entry};
    }
    // Addresses that may lie outside of the object are computed as numbers.
    static std::byte* moved(std::byte* address, std::int64_t bytes) noexcept {
        return reinterpret_cast<std::byte*>(reinterpret_cast<std::uint64_t>(address) +
                                            static_cast<std::uint64_t>(bytes));
    }
};

}  // namespace verbatim::objects
