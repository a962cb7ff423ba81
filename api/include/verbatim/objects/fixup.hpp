// The fix-up turns a received image into objects, in place, as the receiver's side of the walk
// (Naos §3.3). The walk is the sender's; a reference leads to the next object of the image unless
// the metadata say otherwise. Every length, offset, type and bool is checked before the graph is
// returned. A failed check throws Error(corrupt_message). Trust: the peer must not rewrite the
// image while this runs (same application, same user). Metadata are copies. Threads: one.
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

// The objects placed so far in an image, to test whether a back-pointer leads to an object of its
// type. Objects are noted in the order of the image; an index of its blocks makes the search short.
// Kept from graph to graph, so that its memory is touched first only once. Threads: one.
class Placement {
  public:
    // Objects of one type side by side in the image, as Run is for the sender.
    struct Placed {
        std::uint64_t offset = 0;
        std::uint64_t count = 0;
        const TypeKey* type = nullptr;
        bool is_array = false;
        std::uint64_t stride() const noexcept {
            return is_array ? type->bytes : round_to(type->bytes, kImageGranule);
        }
    };

    void begin(const std::byte* image, std::uint64_t image_bytes);
    // Objects at [offset, end), beyond everything that was added before.
    void add(const Placed& objects, std::uint64_t end);
    // Are there `count` consecutive objects of `type` at `offset`?
    bool holds(std::uint64_t offset, std::uint64_t count, const TypeKey& type) noexcept;
    // Does no object that was added share bytes with [offset, end)?
    bool is_between(std::uint64_t offset, std::uint64_t end) const noexcept;

    // The common case of holds(), for one object.
    template <class E>
    bool likely_holds(std::uint64_t offset) noexcept {
        return likely<E>().template has<E>(offset);
    }
    template <class E>
    const LikelyTargets& likely() noexcept {
        return likely_.of(kTypeKey<E>);
    }

  private:
    // The last object that starts at or before `offset`, or the first one if none does.
    std::size_t last_before(std::uint64_t offset) const noexcept;

    // `count` objects of `type` that start with the one at `offset`.
    ObjectArray array_at(std::uint64_t offset, std::uint64_t count,
                         const TypeKey& type) const noexcept {
        return {type.info(), count, image_ + offset};
    }

    static constexpr std::uint64_t kBlockBytes = 256;
    static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

    const std::byte* image_ = nullptr;
    Column<Placed> placed_;
    std::vector<std::size_t>
        first_;                 // per block: the first of placed_ that ends inside or after it
    std::uint64_t blocks_ = 0;  // known so far
    std::uint64_t last_end_ = kNowhere;  // of single objects, which may go on there
    LikelyTable likely_;
};

// A reference to an object that is placed later.
struct LaterReference {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    const TypeKey* type = nullptr;
    bool text = false;
    bool characters = false;  // a type that strings are made of
};

template <class E>
inline constexpr bool kCharacter =
    std::is_same_v<E, char> || std::is_same_v<E, wchar_t> || std::is_same_v<E, char8_t> ||
    std::is_same_v<E, char16_t> || std::is_same_v<E, char32_t>;

class Fixup;

// The tables of a Fixup, kept from graph to graph. Threads: one at a time.
struct FixupTables {
    Placement placement;
    Column<LaterReference> later;
    Walk<Fixup>::Stack stack;
};

class Fixup {
  public:
    Fixup(std::byte* image, std::uint64_t bytes, std::span<const BackPointer> back_pointers,
          std::span<const Extension> extensions, FixupTables& tables);

    // Makes the image valid and returns its root.
    template <class T>
    T* run();

    std::uint64_t objects() const noexcept { return objects_; }

    // ---- the side of Walk ----
    template <class T>
    Found<Target<T>> follow(T& reference);
    template <class P>
    void follow_leaves(P* pointers, std::uint64_t count);
    template <class P>
    std::uint64_t follow_likely(P* pointers, std::uint64_t count);
    template <class T>
    static bool engaged(const T& optional) noexcept {
        return optional.has_value();  // its flag was checked when the object was placed
    }

  private:
    // Where a reference leads; fresh objects are still to be walked.
    template <class E>
    struct Place {
        E* target = nullptr;
        Found<E> fresh;
    };

    template <class E>
    Place<E> resolve(std::uint64_t count, bool text);
    template <class E>
    Place<E> resolve_exception(std::uint64_t count, bool text);
    template <class E>
    E* point_back_likely();
    template <std::uint64_t Stride, class P>
    std::uint64_t follow_likely(P* pointers, std::uint64_t count, const LikelyTargets& likely);
    void find_exception() noexcept;
    template <class E>
    E* place(std::uint64_t count, bool text);
    template <class E>
    E* point_back(std::uint64_t offset, std::uint64_t count, bool text);
    template <class T>
    Found<Target<T>> follow_text(T& reference);
    template <class C>
    Found<C> follow_long_text(std::byte* image, std::uint64_t size);
    template <class T>
    Found<Target<T>> follow_sequence(T& reference);
    template <class E>
    Found<E> follow_elements(std::byte* image, std::uint64_t begin, std::uint64_t end);
    template <class T>
    Found<Target<T>> follow_pointer(T& reference);
    template <class E>
    static void check_values(const E* objects, std::uint64_t count);
    template <class P>
    static void check_part(const P* part) {
        if constexpr (kNeedsCheck<P>) check_values(part, 1);
    }

    void check_terminator_later(const std::byte* terminator, std::size_t bytes);
    void check_terminator() const;
    template <class E>
    bool leads_to(std::uint64_t offset, std::uint64_t count) const;
    void require_terminator(const LaterReference& text) const;
    void finish() const;
    [[noreturn]] static void corrupt(const char* what);

    // The image is visited nearly in order: bytes of a few objects later are fetched now.
    static constexpr std::size_t kPrefetchBytes = 1024;

    const std::pmr::memory_resource* refusing_ = std::pmr::null_memory_resource();
    std::byte* image_;
    std::uint64_t bytes_;
    std::span<const BackPointer> back_pointers_;  // not yet used
    std::span<const Extension> extensions_;       // not yet used
    bool tracked_;                                // are there references that need the placement?
    FixupTables& tables_;
    // The first reference that does not lead to the next object of the image.
    std::uint64_t next_exception_ = 0;
    const std::byte* terminator_ = nullptr;  // of the last long string
    std::size_t terminator_bytes_ = 0;       // not yet checked
    std::uint64_t cursor_ = 0;
    std::uint64_t references_ = 0;
    std::uint64_t objects_ = 0;
};

[[gnu::always_inline]] inline void Placement::add(const Placed& objects, std::uint64_t end) {
    if (!objects.is_array && last_end_ == objects.offset && placed_.back().type == objects.type)
        ++placed_.back().count;
    else
        placed_.push_back(objects);
    last_end_ = objects.is_array ? kNowhere : end;
    for (; blocks_ * kBlockBytes < end; ++blocks_) first_[blocks_] = placed_.size() - 1;
}

template <class T>
T* Fixup::run() {
    const Place<T> root = resolve<T>(1, false);
    Walk<Fixup>(*this, tables_.stack).run(root.fresh);
    finish();
    return root.target;
}

// Takes `count` objects from the cursor.
template <class E>
[[gnu::always_inline]] inline E* Fixup::place(std::uint64_t count, bool text) {
    constexpr std::uint64_t kAlignment = image_alignment(alignof(E));
    const std::uint64_t offset = round_to(cursor_, kAlignment);
    if (offset > bytes_ || count > (bytes_ - offset) / sizeof(E))
        corrupt("an object lies past the end");
    cursor_ = offset + round_to(count * sizeof(E), kImageGranule);
    ++objects_;
    if (tracked_ && !text)
        tables_.placement.add({offset, count, &kTypeKey<E>, count != 1}, cursor_);

    E* objects = reinterpret_cast<E*>(image_ + offset);
    __builtin_prefetch(image_ + cursor_ + kPrefetchBytes);
    if constexpr (kNeedsCheck<E>) check_values(objects, count);
    return objects;
}

inline void Fixup::find_exception() noexcept {
    constexpr std::uint64_t kNever = ~std::uint64_t{0};
    const std::uint64_t back = back_pointers_.empty() ? kNever : back_pointers_.front().reference;
    const std::uint64_t extension = extensions_.empty() ? kNever : extensions_.front().reference;
    next_exception_ = std::min(back, extension);
}

template <class E>
[[gnu::always_inline]] inline Fixup::Place<E> Fixup::resolve(std::uint64_t count, bool text) {
    if (references_ == next_exception_) return resolve_exception<E>(count, text);
    ++references_;
    E* first = place<E>(count, text);
    return {first, {first, count}};
}

template <class E>
[[gnu::noinline]] Fixup::Place<E> Fixup::resolve_exception(std::uint64_t count, bool text) {
    const std::uint64_t reference = references_++;
    if (!back_pointers_.empty() && back_pointers_.front().reference == reference) {
        const std::uint64_t offset = back_pointers_.front().offset;
        back_pointers_ = back_pointers_.subspan(1);
        find_exception();
        return {point_back<E>(offset, count, text), {}};
    }
    const Extension extension = extensions_.front();
    extensions_ = extensions_.subspan(1);
    find_exception();
    E* first = place<E>(extension.count, text);
    return {point_back<E>(extension.offset, count, text), {first, extension.count}};
}

// The back-pointer of the current reference, if it leads to an object like the last one did; or
// null, and nothing done.
template <class E>
[[gnu::always_inline]] inline E* Fixup::point_back_likely() {
    if (references_ != next_exception_ || !extensions_.empty()) return nullptr;
    const std::uint64_t offset = back_pointers_.front().offset;
    if (!tables_.placement.likely_holds<E>(offset)) return nullptr;
    ++references_;
    back_pointers_ = back_pointers_.subspan(1);
    next_exception_ = back_pointers_.empty() ? ~std::uint64_t{0} : back_pointers_.front().reference;
    return reinterpret_cast<E*>(image_ + offset);
}

// Of the objects placed so far.
template <class E>
bool Fixup::leads_to(std::uint64_t offset, std::uint64_t count) const {
    if (tables_.placement.holds(offset, count, kTypeKey<E>)) return true;
    // Scalars that strings are made of may be read wherever characters lie.
    return kCharacter<E> && offset + count * sizeof(E) <= cursor_ &&
           tables_.placement.is_between(offset, offset + count * sizeof(E));
}

template <class E>
E* Fixup::point_back(std::uint64_t offset, std::uint64_t count, bool text) {
    if (offset >= bytes_ || offset % alignof(E) != 0 || count > (bytes_ - offset) / sizeof(E))
        corrupt("a back-pointer leads outside the graph");
    if (offset >= cursor_)
        tables_.later.push_back({offset, count, &kTypeKey<E>, text, kCharacter<E>});
    else if (!leads_to<E>(offset, count))
        corrupt("a back-pointer leads to no object of its type");
    else if (text)
        require_terminator({offset, count, &kTypeKey<E>, text, kCharacter<E>});
    return reinterpret_cast<E*>(image_ + offset);
}

// Inline only for most references: null, empty, short, or like the last one.
template <class T>
[[gnu::always_inline]] inline Found<Target<T>> Fixup::follow(T& reference) {
    if constexpr (kForm<T> == Form::text) {
        return follow_text(reference);
    } else if constexpr (kForm<T> == Form::sequence) {
        return follow_sequence(reference);
    } else {
        std::uint64_t raw = 0;
        static_assert(sizeof raw == sizeof reference);
        std::memcpy(&raw, &reference, sizeof raw);
        if (raw == 0) return {};
        if (Target<T>* known = point_back_likely<Target<T>>(); known != nullptr) {
            std::memcpy(static_cast<void*>(&reference), &known, sizeof raw);
            return {};
        }
        return follow_pointer(reference);
    }
}

template <class T>
[[gnu::noinline]] Found<Target<T>> Fixup::follow_pointer(T& reference) {
    const auto place = resolve<Target<T>>(1, false);
    std::memcpy(static_cast<void*>(&reference), &place.target, sizeof reference);
    return place.fresh;
}

// The pointers up to the next exception lead to objects that lie side by side.
template <class P>
void Fixup::follow_leaves(P* pointers, std::uint64_t count) {
    using E = Target<P>;
    constexpr std::uint64_t kStride = kSingleStride<E>;
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
        if (placed == 0) break;  // no room: the general path reports it
    }
    for (; i < count; ++i) follow(pointers[i]);
}

template <class P>
[[gnu::always_inline]] inline std::uint64_t Fixup::follow_likely(P* pointers, std::uint64_t count) {
    using E = Target<P>;
    const LikelyTargets likely = tables_.placement.likely<E>();
    if (likely.type != &kTypeKey<E> || !extensions_.empty()) return 0;
    return likely.is_array ? follow_likely<sizeof(E)>(pointers, count, likely)
                           : follow_likely<kSingleStride<E>>(pointers, count, likely);
}

template <std::uint64_t Stride, class P>
[[gnu::noinline]] std::uint64_t Fixup::follow_likely(P* pointers, std::uint64_t count,
                                                     const LikelyTargets& likely) {
    const BackPointer* pointer = back_pointers_.data();
    const BackPointer* const end = pointer + back_pointers_.size();
    std::uint64_t i = 0, reference = references_;
    for (; i < count; ++i) {
        std::uint64_t raw = 0;
        std::memcpy(&raw, &pointers[i], sizeof raw);
        if (raw == 0) continue;
        if (pointer == end || pointer->reference != reference) break;
        if (!likely.has_at<Stride>(pointer->offset)) break;
        const std::byte* const target = image_ + pointer->offset;
        std::memcpy(static_cast<void*>(&pointers[i]), &target, sizeof raw);
        ++pointer;
        ++reference;
    }
    back_pointers_ = {pointer, end};
    references_ = reference;
    find_exception();
    return i;
}

namespace detail {

// A received container must never allocate or free: its resource refuses.
template <bool Polymorphic>
std::byte* forbid_allocation(void* container, const std::pmr::memory_resource* none) noexcept {
    auto* bytes = static_cast<std::byte*>(container);
    if constexpr (Polymorphic) std::memcpy(bytes, &none, sizeof none);
    return bytes + kAllocatorBytes<Polymorphic>;
}

}  // namespace detail

template <class T>
[[gnu::always_inline]] inline Found<Target<T>> Fixup::follow_text(T& reference) {
    using C = Target<T>;
    using Image = StringImage<C>;
    auto* image =
        detail::forbid_allocation<detail::TextTraits<T>::kPolymorphic>(&reference, refusing_);
    std::uint64_t size = 0;
    std::memcpy(&size, image + offsetof(Image, size), sizeof size);
    if (size > Image::kLocal) return follow_long_text<C>(image, size);
    std::byte* const local = image + offsetof(Image, local);
    C terminator;
    std::memcpy(&terminator, local + size * sizeof(C), sizeof(C));
    if (terminator != C{}) corrupt("a string lacks its terminator");
    std::memcpy(image + offsetof(Image, data), &local, sizeof local);
    return {};
}

// The end of a long string is seldom cached: by the time of the next one it is.
inline void Fixup::check_terminator_later(const std::byte* terminator, std::size_t bytes) {
    check_terminator();
    terminator_ = terminator;
    terminator_bytes_ = bytes;
    __builtin_prefetch(terminator);
}

inline void Fixup::check_terminator() const {
    for (std::size_t i = 0; i < terminator_bytes_; ++i)
        if (terminator_[i] != std::byte{0}) corrupt("a string lacks its terminator");
}

template <class C>
[[gnu::noinline]] Found<C> Fixup::follow_long_text(std::byte* image, std::uint64_t size) {
    using Image = StringImage<C>;
    if (size >= bytes_) corrupt("a string is longer than the graph");
    const auto place = resolve<C>(size + 1, true);
    if (place.fresh.count > 0)
        check_terminator_later(reinterpret_cast<std::byte*>(place.target + size), sizeof(C));
    std::memcpy(image + offsetof(Image, data), &place.target, sizeof place.target);
    std::memcpy(image + offsetof(Image, capacity), &size, sizeof size);
    return {};  // characters refer to nothing
}

template <class T>
[[gnu::always_inline]] inline Found<Target<T>> Fixup::follow_sequence(T& reference) {
    using E = Target<T>;
    auto* image =
        detail::forbid_allocation<detail::SequenceTraits<T>::kPolymorphic>(&reference, refusing_);
    std::uint64_t begin = 0, end = 0;
    std::memcpy(&begin, image + offsetof(VectorImage, begin), sizeof begin);
    std::memcpy(&end, image + offsetof(VectorImage, end), sizeof end);
    if (begin != end) return follow_elements<E>(image, begin, end);
    std::memset(image, 0, sizeof(VectorImage));
    return {};
}

template <class E>
[[gnu::noinline]] Found<E> Fixup::follow_elements(std::byte* place_of_image, std::uint64_t begin,
                                                  std::uint64_t end) {
    if (end < begin || (end - begin) % sizeof(E) != 0)
        corrupt("a vector's ends do not fit its elements");
    const auto place = resolve<E>((end - begin) / sizeof(E), false);
    VectorImage image;
    image.begin = reinterpret_cast<std::byte*>(place.target);
    image.end = image.capacity_end = image.begin + (end - begin);
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
            const std::byte flag =
                optional_flag(reinterpret_cast<const std::byte*>(bytes), sizeof(Held<E>));
            if (flag > std::byte{1}) corrupt("an optional is neither empty nor full");
            if constexpr (kNeedsCheck<Held<E>>)
                if (flag == std::byte{1}) check_values(reinterpret_cast<const Held<E>*>(bytes), 1);
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
