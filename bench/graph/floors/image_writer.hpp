// The sending half of the general floor: walks a graph with a visited table, and writes the image
// straight into the receiver's memory, as may be done where both sides share it.
#pragma once

#include <stdexcept>

#include "image_layout.hpp"
#include "visited.hpp"

namespace bench_graph {

// One walk. All of it is inlined into ImageWriter::write(), so that its members are in registers.
template <class Root, class Targets>
class WritingWalk {
  public:
    WritingWalk(VisitedView visited, image::Stacks<Targets> stacks, std::span<std::byte> image)
        : visited_(visited), stacks_(stacks), image_(image.data()), size_(image.size()) {}

    [[gnu::always_inline]] std::uint64_t run(const Root& root) {
        if constexpr (image::kNumber<Root, Targets> != 0)
            place_target(&root);
        else
            fields(*at<Root>(append(&root, sizeof root)));
        stacks_.drain([&]<class T>(std::uint64_t place, std::uint64_t count) {
            for (T* object = at<T>(place); count != 0; --count) fields(*object++);
        });
        return end_;
    }

  private:
    static constexpr std::size_t kAhead = 16;  // pointers of an array that are looked up before

    template <class T>
    T* at(std::uint64_t place) const {
        return reinterpret_cast<T*>(image_ + place);
    }
    std::uint64_t append(const void* from, std::size_t bytes) {
        const std::uint64_t place = end_;
        if (bytes > size_ - place) [[unlikely]]
            throw std::runtime_error("general floor: the image is too small");
        std::memcpy(image_ + place, from, bytes);
        end_ = image::round_up(place + bytes);
        return place;
    }

    template <class T>
    std::uint64_t place_target(const T* object) {
        if (object == nullptr) return 0;
        if (const std::uint64_t place = visited_.find(object); place != 0) return place;
        const std::uint64_t place = append(object, sizeof(T));
        visited_.enter(object, sizeof(T), place);
        if constexpr (image::needs_visit<T>()) stacks_.template push<T>(place, 1);
        return place;
    }

    template <class T>
    void fields(T& copy) {
        image::for_each_field(copy, [this](auto& field) { this->value(field); });
    }

    template <class T>
    void value(T& copy) {
        if constexpr (std::is_pointer_v<T>)
            image::store(&copy, place_target(copy));
        else if constexpr (image::kText<T>)
            text(copy);
        else if constexpr (image::kVector<T>)
            vector(copy);
        else if constexpr (image::kObject<T>)
            fields(copy);
    }

    // Short text lies in the string; then its pointer is 0.
    void text(std::pmr::string& copy) {
        const std::uint64_t bytes = image::load(image::word_of(copy, 2));
        const auto* from = reinterpret_cast<const char*>(image::load(image::word_of(copy, 1)));
        const bool is_short = bytes < 16;
        image::store(image::word_of(copy, 1), is_short ? 0 : append(from, bytes + 1));
    }

    template <class T>
    void vector(std::pmr::vector<T>& copy) {
        const auto* from = reinterpret_cast<const T*>(image::load(image::word_of(copy, 1)));
        const auto* end = reinterpret_cast<const T*>(image::load(image::word_of(copy, 2)));
        const auto count = static_cast<std::size_t>(end - from);
        image::store(image::word_of(copy, 2), count);
        image::store(image::word_of(copy, 1), count == 0 ? 0 : elements(from, count));
    }

    template <class T>
    std::uint64_t elements(const T* from, std::size_t count) {
        const std::uint64_t place = append(from, count * sizeof(T));
        if constexpr (image::kNumber<T, Targets> != 0) {
            visited_.enter(from, count * sizeof(T), place);
            if constexpr (image::needs_visit<T>()) stacks_.template push<T>(place, count);
        } else if constexpr (std::is_pointer_v<T>) {
            pointers(from, place, count);
        } else if constexpr (image::needs_visit<T>()) {
            for (std::size_t i = 0; i < count; ++i) value(at<T>(place)[i]);
        }
        return place;
    }

    template <class T>
    void pointers(T* const* from, std::uint64_t place, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            if (i + kAhead < count && from[i + kAhead] != nullptr) {
                visited_.prefetch(from[i + kAhead]);
                __builtin_prefetch(from[i + kAhead]);
            }
            image::store(image_ + place + 8 * i, place_target(from[i]));
        }
    }

    VisitedView visited_;
    image::Stacks<Targets> stacks_;
    std::byte* image_;
    std::size_t size_;
    std::uint64_t end_ = image::kFirst;
};

template <class Root, class Targets>
class ImageWriter {
  public:
    ImageWriter(std::span<const std::byte> extent, const WarmBlock& image)
        : visited_(extent), stacks_(image.size()), image_(image.data(), image.size()) {}

    // The image's bytes.
    [[gnu::flatten]] std::uint64_t write(const Root& root) {
        WritingWalk<Root, Targets> walk(visited_.view(), stacks_.stacks(), image_);
        const std::uint64_t bytes = walk.run(root);
        visited_.restart(bytes);
        return bytes;
    }

  private:
    Visited visited_;
    image::StackMemory<Targets> stacks_;
    std::span<std::byte> image_;
};

}  // namespace bench_graph
