// The receiving half of the general floor: walks the image in the writer's order, checks each
// offset, count, terminator and bool, and makes pointers of the offsets in place.
#pragma once

#include <stdexcept>

#include "image_layout.hpp"
#include "visited.hpp"

namespace bench_graph {

// One walk, inlined as the writer's is.
template <class Root, class Targets>
class ReadingWalk {
  public:
    ReadingWalk(image::Stacks<Targets> stacks, std::uint16_t* starts, std::span<std::byte> image)
        : stacks_(stacks), starts_(starts), image_(image.data()), bytes_(image.size()) {}

    [[gnu::always_inline]] Root* run() {
        claim(image::kFirst, 1, sizeof(Root));
        if constexpr (image::kNumber<Root, Targets> != 0) mark<Root>(image::kFirst, 1);
        fields(*at<Root>(image::kFirst));
        stacks_.drain([&]<class T>(std::uint64_t place, std::uint64_t count) {
            for (T* object = at<T>(place); count != 0; --count) fields(*object++);
        });
        check(end_ == bytes_);
        return at<Root>(image::kFirst);
    }

  private:
    static void check(bool right) {
        if (!right) [[unlikely]]
            throw std::runtime_error("general floor: the image is damaged");
    }

    template <class T>
    T* at(std::uint64_t place) const {
        return reinterpret_cast<T*>(image_ + place);
    }
    // What is met for the first time lies behind everything else, so nothing overlaps.
    void claim(std::uint64_t place, std::uint64_t count, std::size_t size) {
        check(place == end_ && count <= (bytes_ - end_) / size);
        end_ = image::round_up(end_ + count * size);
    }

    // One word for each granule: the type, and which of its halves objects start in.
    template <class T>
    static constexpr std::uint16_t kType = static_cast<std::uint16_t>(image::kNumber<T, Targets> *
                                                                      4);
    static std::uint16_t half(std::uint64_t place) {
        return static_cast<std::uint16_t>(1 + (place >> 3 & 1));
    }
    template <class T>
    void mark(std::uint64_t place, std::uint64_t count) {
        for (; count != 0; --count, place += sizeof(T)) {
            std::uint16_t& start = starts_[place / kGranule];
            start = static_cast<std::uint16_t>(start | kType<T> | half(place));
        }
    }
    template <class T>
    void check_start(std::uint64_t place) const {
        check(place < end_ && place % 8 == 0);
        const std::uint16_t start = starts_[place / kGranule];
        check((start & ~3) == kType<T> && (start & half(place)) != 0);
    }

    template <class T>
    void fields(T& object) {
        image::for_each_field(object, [this](auto& field) { this->value(field); });
    }

    template <class T>
    void value(T& value) {
        if constexpr (std::is_pointer_v<T>)
            pointer(value);
        else if constexpr (image::kText<T>)
            text(value);
        else if constexpr (image::kVector<T>)
            vector(value);
        else if constexpr (image::kObject<T>)
            fields(value);
        else
            check(*reinterpret_cast<const unsigned char*>(&value) <= 1);
    }

    template <class T>
    void pointer(T*& field) {
        const std::uint64_t place = image::load(&field);
        if (place == 0) return;  // null already
        if (place == end_) {
            claim(place, 1, sizeof(T));
            mark<T>(place, 1);
            if constexpr (image::needs_visit<T>()) stacks_.template push<T>(place, 1);
        } else {
            check_start<T>(place);
        }
        image::store(&field, address(place));
    }

    void text(std::pmr::string& field) {
        const std::uint64_t place = image::load(image::word_of(field, 1));
        const std::uint64_t bytes = image::load(image::word_of(field, 2));
        char* letters = reinterpret_cast<char*>(image::word_of(field, 3));
        if (bytes >= 16) {
            check(bytes < bytes_);
            claim(place, bytes + 1, 1);
            letters = at<char>(place);
            image::store(image::word_of(field, 3), bytes);
        }
        check(letters[bytes] == 0);
        image::store(image::word_of(field, 0), no_memory());
        image::store(image::word_of(field, 1), reinterpret_cast<std::uintptr_t>(letters));
    }

    template <class T>
    void vector(std::pmr::vector<T>& field) {
        const std::uint64_t place = image::load(image::word_of(field, 1));
        const std::uint64_t count = image::load(image::word_of(field, 2));
        const std::uint64_t first = count == 0 ? 0 : address(place);
        image::store(image::word_of(field, 0), no_memory());
        image::store(image::word_of(field, 1), first);
        image::store(image::word_of(field, 2), first + count * sizeof(T));
        image::store(image::word_of(field, 3), first + count * sizeof(T));
        if (count == 0) return;
        claim(place, count, sizeof(T));
        elements<T>(place, count);
    }

    template <class T>
    void elements(std::uint64_t place, std::uint64_t count) {
        if constexpr (image::kNumber<T, Targets> != 0) {
            mark<T>(place, count);
            if constexpr (image::needs_visit<T>()) stacks_.template push<T>(place, count);
        } else if constexpr (image::needs_visit<T>()) {
            for (T* element = at<T>(place); count != 0; --count) value(*element++);
        }
    }

    std::uint64_t address(std::uint64_t place) const {
        return reinterpret_cast<std::uintptr_t>(image_ + place);
    }
    std::uint64_t no_memory() const { return reinterpret_cast<std::uintptr_t>(no_memory_); }

    image::Stacks<Targets> stacks_;
    std::uint16_t* starts_;
    std::pmr::memory_resource* no_memory_ = std::pmr::null_memory_resource();
    std::byte* image_;
    std::uint64_t bytes_;
    std::uint64_t end_ = image::kFirst;
};

template <class Root, class Targets>
class ImageReader {
  public:
    explicit ImageReader(const WarmBlock& image)
        : stacks_(image.size()), image_(image.data()), starts_(image.size() / kGranule * 2 + 64) {}

    // The image's root. Throws std::runtime_error if anything in it is wrong.
    [[gnu::flatten]] Root* read(std::uint64_t bytes) {
        auto* starts = reinterpret_cast<std::uint16_t*>(starts_.data());
        std::fill_n(starts, bytes / kGranule, std::uint16_t{0});
        return ReadingWalk<Root, Targets>(stacks_.stacks(), starts, {image_, bytes}).run();
    }

  private:
    image::StackMemory<Targets> stacks_;
    std::byte* image_;
    WarmBlock starts_;
};

}  // namespace bench_graph
