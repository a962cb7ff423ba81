// The receiver's side of the walk: turns a received image into objects, in place (Naos §3.3). The
// walk is the sender's; a reference leads to the next object of the image unless the metadata say
// otherwise. Every length, offset, type and bool is checked before anything is handed out; a failed
// check throws Error(corrupt_message) and nothing is. Trust: the peer must not rewrite the image
// while this runs (same application, same user). Metadata are copies. Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <span>
#include <vector>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/scan.hpp>
#include <verbatim/objects/type_info.hpp>
#include <verbatim/objects/walk.hpp>

namespace verbatim::objects {

class Fixup {
  public:
    Fixup(std::byte* image, std::uint64_t bytes, std::span<const BackPointer> back_pointers,
          std::span<const Extension> extensions);

    // Makes the image valid and returns its root.
    template <class T>
    T* run();

    std::uint64_t objects() const noexcept { return objects_; }

    // ---- the side of Walk ----
    template <class T>
    Found<Target<T>> follow(T& reference);
    template <class P>
    void follow_leaves(P* pointers, std::uint64_t count);
    template <class T>
    static bool engaged(const T& optional) noexcept {
        return optional.has_value();  // its flag was checked when the object was placed
    }

  private:
    // Objects of one type side by side in the image, as Run is for the sender.
    struct Placed {
        std::uint64_t offset = 0;
        std::uint64_t count = 0;
        const TypeInfo* type = nullptr;
        bool is_array = false;
        std::uint64_t stride() const noexcept {
            return is_array ? type->bytes : round_to(type->bytes, kImageGranule);
        }
    };
    // A reference to an object that is placed later.
    struct Later {
        std::uint64_t offset = 0;
        std::uint64_t count = 0;
        const TypeInfo* type = nullptr;
        bool text = false;
    };
    // Where a reference leads; fresh objects are still to be walked.
    template <class E>
    struct Place {
        E* target = nullptr;
        Found<E> fresh;
    };

    template <class E>
    Place<E> resolve(std::uint64_t count, bool text);
    template <class E>
    E* place(std::uint64_t count);
    template <class E>
    E* point_back(std::uint64_t offset, std::uint64_t count, bool text);
    template <class T>
    Found<Target<T>> follow_text(T& reference);
    template <class T>
    Found<Target<T>> follow_sequence(T& reference);
    template <class E>
    static void check_values(const E* objects, std::uint64_t count);
    template <class P>
    static void check_part(const P* part) {
        if constexpr (kNeedsCheck<P>) check_values(part, 1);
    }

    void remember(std::uint64_t offset, std::uint64_t count, const TypeInfo& type);
    bool is_placed(const Later& wanted) const noexcept;
    void require_terminator(const Later& text) const;
    void finish() const;
    [[noreturn]] static void corrupt(const char* what);

    std::byte* image_;
    std::uint64_t bytes_;
    std::span<const BackPointer> back_pointers_;
    std::span<const Extension> extensions_;
    bool tracked_;  // are there references that need remember()?
    std::vector<Placed> placed_;
    std::vector<std::uint32_t> owner_;  // per granule: index into placed_, plus one
    std::vector<Later> later_;
    Walk<Fixup>::Stack stack_;
    std::size_t next_back_ = 0, next_extension_ = 0;
    std::uint64_t next_back_reference_, next_extension_reference_;
    std::uint64_t cursor_ = 0;
    std::uint64_t references_ = 0;
    std::uint64_t objects_ = 0;
};

template <class T>
T* Fixup::run() {
    const Place<T> root = resolve<T>(1, false);
    Walk<Fixup>(*this, stack_).run(root.fresh);
    finish();
    return root.target;
}

// Takes `count` objects from the cursor.
template <class E>
E* Fixup::place(std::uint64_t count) {
    const TypeInfo& type = type_info<E>();
    constexpr std::uint64_t kAlignment = image_alignment(alignof(E));
    const std::uint64_t offset = round_to(cursor_, kAlignment);
    if (offset > bytes_ || count > (bytes_ - offset) / sizeof(E))
        corrupt("an object lies past the end");
    cursor_ = offset + round_to(count * sizeof(E), kImageGranule);
    ++objects_;
    if (tracked_) remember(offset, count, type);
    E* objects = reinterpret_cast<E*>(image_ + offset);
    if constexpr (kNeedsCheck<E>) check_values(objects, count);
    return objects;
}

template <class E>
Fixup::Place<E> Fixup::resolve(std::uint64_t count, bool text) {
    const std::uint64_t reference = references_++;
    if (reference == next_back_reference_) {
        const std::uint64_t offset = back_pointers_[next_back_].offset;
        ++next_back_;
        next_back_reference_ = next_back_ < back_pointers_.size()
                                   ? back_pointers_[next_back_].reference
                                   : ~std::uint64_t{0};
        return {point_back<E>(offset, count, text), {}};
    }
    if (reference == next_extension_reference_) {
        const Extension extension = extensions_[next_extension_];
        ++next_extension_;
        next_extension_reference_ = next_extension_ < extensions_.size()
                                        ? extensions_[next_extension_].reference
                                        : ~std::uint64_t{0};
        E* first = place<E>(extension.count);
        return {point_back<E>(extension.offset, count, text), {first, extension.count}};
    }
    E* first = place<E>(count);
    return {first, {first, count}};
}

template <class E>
E* Fixup::point_back(std::uint64_t offset, std::uint64_t count, bool text) {
    const Later wanted{offset, count, &type_info<E>(), text};
    if (offset >= bytes_ || offset % alignof(E) != 0 || count > (bytes_ - offset) / sizeof(E))
        corrupt("a back-pointer leads outside the graph");
    if (offset >= cursor_)
        later_.push_back(wanted);
    else if (!is_placed(wanted))
        corrupt("a back-pointer leads to no object of its type");
    else if (text)
        require_terminator(wanted);
    return reinterpret_cast<E*>(image_ + offset);
}

template <class T>
Found<Target<T>> Fixup::follow(T& reference) {
    if constexpr (kForm<T> == Form::text) {
        return follow_text(reference);
    } else if constexpr (kForm<T> == Form::sequence) {
        return follow_sequence(reference);
    } else {
        std::uint64_t raw = 0;
        static_assert(sizeof raw == sizeof reference);
        std::memcpy(&raw, &reference, sizeof raw);
        if (raw == 0) return {};
        const auto place = resolve<Target<T>>(1, false);
        std::memcpy(static_cast<void*>(&reference), &place.target, sizeof raw);
        return place.fresh;
    }
}

// The pointers up to the next exception lead to objects that lie side by side.
template <class P>
void Fixup::follow_leaves(P* pointers, std::uint64_t count) {
    using E = Target<P>;
    constexpr std::uint64_t kStride = round_to(sizeof(E), kImageGranule);
    std::uint64_t i = 0;
    while (!tracked_ && !kNeedsCheck<E> && image_alignment(alignof(E)) == kImageGranule &&
           i < count) {
        const std::uint64_t room = (bytes_ - cursor_) / kStride;
        const std::uint64_t end = i + std::min(room, count - i);
        std::byte* target = image_ + cursor_;
        for (; i < end; ++i) {
            std::uint64_t raw = 0;
            std::memcpy(&raw, &pointers[i], sizeof raw);
            if (raw == 0) continue;
            std::memcpy(static_cast<void*>(&pointers[i]), &target, sizeof raw);
            target += kStride;
        }
        const std::uint64_t placed =
            static_cast<std::uint64_t>(target - (image_ + cursor_)) / kStride;
        cursor_ += placed * kStride;
        references_ += placed;
        objects_ += placed;
        if (placed == 0) break;  // no room: the general path says so
    }
    for (; i < count; ++i) follow(pointers[i]);
}

namespace detail {

// A received container must never allocate or free: its resource refuses.
template <bool Polymorphic>
std::byte* forbid_allocation(void* container) noexcept {
    auto* bytes = static_cast<std::byte*>(container);
    if constexpr (Polymorphic) {
        std::pmr::memory_resource* const none = std::pmr::null_memory_resource();
        std::memcpy(bytes, &none, sizeof none);
    }
    return bytes + kAllocatorBytes<Polymorphic>;
}

}  // namespace detail

template <class T>
Found<Target<T>> Fixup::follow_text(T& reference) {
    using C = Target<T>;
    using Image = StringImage<C>;
    auto* place_of_image =
        detail::forbid_allocation<detail::TextTraits<T>::kPolymorphic>(&reference);
    Image image;
    std::memcpy(&image, place_of_image, sizeof image);
    if (image.size <= Image::kLocal) {
        if (image.local[image.size] != C{}) corrupt("a string lacks its terminator");
        image.data = place_of_image + offsetof(Image, local);
        std::memcpy(place_of_image, &image, offsetof(Image, size));
        return {};
    }
    if (image.size >= bytes_) corrupt("a string is longer than the graph");
    const auto place = resolve<C>(image.size + 1, true);
    if (place.fresh.count > 0 && place.target[image.size] != C{})
        corrupt("a string lacks its terminator");
    image.data = reinterpret_cast<std::byte*>(place.target);
    image.capacity = image.size;
    std::memcpy(place_of_image, &image, offsetof(Image, capacity) + sizeof image.capacity);
    return {};  // characters refer to nothing
}

template <class T>
Found<Target<T>> Fixup::follow_sequence(T& reference) {
    using E = Target<T>;
    auto* place_of_image =
        detail::forbid_allocation<detail::SequenceTraits<T>::kPolymorphic>(&reference);
    VectorImage image;
    std::memcpy(&image, place_of_image, sizeof image);
    const auto begin = reinterpret_cast<std::uint64_t>(image.begin);
    const auto end = reinterpret_cast<std::uint64_t>(image.end);
    if (end < begin || (end - begin) % sizeof(E) != 0)
        corrupt("a vector's ends do not fit its elements");
    const std::uint64_t count = (end - begin) / sizeof(E);
    Place<E> place;
    if (count > 0) place = resolve<E>(count, false);
    image.begin = reinterpret_cast<std::byte*>(place.target);
    image.end = image.capacity_end = reinterpret_cast<std::byte*>(place.target + count);
    std::memcpy(place_of_image, &image, sizeof image);
    return place.fresh;
}

// Bools and the flags of optionals: any other byte than 0 and 1 would be undefined to read.
template <class E>
void Fixup::check_values(const E* objects, std::uint64_t count) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(objects);
    for (std::uint64_t i = 0; i < count; ++i, bytes += sizeof(E)) {
        if constexpr (kForm<E> == Form::boolean) {
            if (*bytes > 1) corrupt("a bool is neither true nor false");
        } else if constexpr (kForm<E> == Form::optional) {
            const unsigned char flag = bytes[sizeof(Held<E>)];
            if (flag > 1) corrupt("an optional is neither empty nor full");
            if constexpr (kNeedsCheck<Held<E>>)
                if (flag == 1) check_values(reinterpret_cast<const Held<E>*>(bytes), 1);
        } else if constexpr (kForm<E> == Form::array) {
            check_values(reinterpret_cast<const Held<E>*>(bytes), detail::ArrayTraits<E>::kCount);
        } else {
            [&]<std::size_t... I>(std::index_sequence<I...>) {
                (check_part<PartType<E, I>>(&Parts<E>::template get<I>(objects[i])), ...);
            }
            (std::make_index_sequence<Parts<E>::kCount>{});
        }
    }
}

}  // namespace verbatim::objects
