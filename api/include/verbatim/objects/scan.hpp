// The sender's side of the walk finds every object of a graph once. It gives each object its place
// in the image that the receiver will hold, and notes the references that the receiver cannot infer
// (Naos §3.1).
//
// The image is the sequence of objects in the order of the walk. Each starts on a multiple of 16
// bytes (or of its own alignment, if larger). Objects that are neighbours both in memory and in the
// walk form one stretch; stretches are sent. Nothing of the graph is modified.
//
// A pointer may lead into the middle of an object that the walk meets only later (an element of a
// vector, a member). Then a second walk starts with the larger object known. It is taken in when
// the first pointer into it is met, so that identity is never lost. Threads: one; the graph must
// not change during the scan and the transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/column.hpp>
#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/page_marks.hpp>
#include <verbatim/objects/type_info.hpp>
#include <verbatim/objects/walk.hpp>

namespace verbatim::objects {

// Objects of one type that lie side by side in memory and in the image. A run is `count` single
// objects, each on a granule of its own, or one array of `count` elements.
struct Run {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;  // in the image
    std::uint64_t count = 0;
    const TypeKey* type = nullptr;
    bool is_array = false;
    PageMarks::Links links{};  // older runs in its first and last block

    std::uint64_t stride() const noexcept {
        return is_array ? type->bytes : round_to(type->bytes, kImageGranule);
    }
    std::uint64_t bytes() const noexcept {  // without the padding behind the last object
        return (count - 1) * stride() + type->bytes;
    }
};

// Bytes that lie side by side in memory and in the image, of any objects. Image bytes between two
// stretches are zero.
struct Stretch {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;  // in the image
    std::uint64_t bytes = 0;
    bool direct = false;  // whole granules of the arena: may be sent from where it lies
};

// A reference whose target is not the next new object of the walk.
struct BackPointer {
    std::uint64_t reference = 0;  // ordinal in the walk
    std::uint64_t offset = 0;     // of the target in the image
};
// A reference into an array that is taken in as a whole at this point.
struct Extension {
    std::uint64_t reference = 0;
    std::uint64_t offset = 0;  // of the target in the image
    std::uint64_t count = 0;   // elements of the array
};
// A string that is short although its characters lie elsewhere (it was longer once). The receiver
// takes every short string for a local one, so its bytes in the image are rewritten to be one.
struct ShortString {
    std::uint64_t address = 0;  // of its StringImage in the sender's memory
    std::uint64_t offset = 0;   // of the same bytes in the image
    std::uint32_t character_bytes = 1;
};

class Scan {
  public:
    // Objects in `arena` are sent from where they lie and checked to be allocated; others are
    // copied.
    explicit Scan(const Arena& arena) noexcept : arena_(arena), marks_(arena) {}

    // Walks the graph. Throws Error(bad_pointer | graph_too_large).
    template <class T>
    void run(const T& root);

    std::span<const Run> runs() const noexcept { return runs_.span(); }
    std::span<const Stretch> stretches() const noexcept { return stretches_.span(); }
    std::span<const BackPointer> back_pointers() const noexcept { return back_pointers_.span(); }
    std::span<const Extension> extensions() const noexcept { return extensions_.span(); }
    std::span<const ShortString> short_strings() const noexcept { return short_strings_.span(); }
    std::uint64_t image_bytes() const noexcept { return cursor_; }
    std::uint64_t references() const noexcept { return references_; }
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
        return optional.has_value();
    }

  private:
    // An object that an earlier pointer led into before it was met itself: [address, end).
    struct Container {
        std::uint64_t end = 0;
        std::uint64_t count = 0;
        const TypeKey* type = nullptr;
        bool met = false;  // in this walk
    };
    // The result of following a reference. Not fresh: met before.
    struct Extent {
        std::uint64_t address = 0;
        std::uint64_t count = 0;
        bool fresh = false;
    };
    // The target that a reference needs.
    struct Wanted {
        std::uint64_t address = 0;
        std::uint64_t count = 0;
        const TypeKey& type;
        std::uint64_t bytes() const noexcept { return count * type.bytes; }
        std::uint64_t end() const noexcept { return address + bytes(); }
    };
    static constexpr std::size_t kMaxRuns = std::size_t{1} << 31;
    static constexpr int kMaxWalks = 8;
    // Prefetch distance: objects are often neighbours in the order of the walk, and the next but
    // one is then cached. Measured on the package graph: 512 to 2048 do equally well.
    static constexpr std::size_t kPrefetchBytes = 1024;
#if defined(NDEBUG)
    static constexpr bool kChecksHeapPointers = false;
#else
    static constexpr bool kChecksHeapPointers = true;
#endif

    template <class E>
    static constexpr std::uint64_t granules_of(std::uint64_t count) noexcept {
        return (count * sizeof(E) + kImageGranule - 1) / kImageGranule;
    }

    void begin_walk() noexcept;
    bool end_walk();  // false: walk again, containers were learned
    void resolve_deferred();

    template <class E>
    Extent meet(const void* target, std::uint64_t count);
    template <class E>
    Found<E> meet_out_of_line(const void* target, std::uint64_t count);
    template <class C>
    void meet_text(const void* target, std::uint64_t count);
    template <class E>
    bool is_plain(std::uint64_t address, std::uint64_t count) const noexcept;
    template <class E>
    bool meet_fresh(std::uint64_t address, std::uint64_t count);
    template <class C>
    bool meet_fresh_text(std::uint64_t address, std::uint64_t count);
    template <class E>
    std::uint64_t next_offset() const noexcept;
    template <class E>
    void take_in_plain(std::uint64_t address, std::uint64_t count);
    template <class E>
    bool meet_again(std::uint64_t address, std::uint64_t count);
    template <class E>
    bool meet_likely(std::uint64_t address);
    template <std::uint64_t Stride, class P>
    std::uint64_t follow_likely(P* pointers, std::uint64_t count, const LikelyTargets& likely);
    void add_stretch(const Stretch& stretch);
    bool meet_neighbours(std::uint64_t address, std::uint64_t count, const TypeKey& type);
    Extent meet_any(const Wanted& wanted);
    Extent take_in(const Wanted& wanted);
    enum class Seen : std::uint8_t { no, yes, conflict };
    Seen point_back(const Wanted& wanted);
    bool meet_container(const Wanted& wanted, Extent& extent);
    Extent learn(const Wanted& wanted);

    void check(const Wanted& wanted) const;
    [[noreturn]] void refuse(const Wanted& wanted, const std::string& cause) const;
    void note_short_string(const void* string_image, std::uint32_t character_bytes);

    // The run that was the newest in the block of `address` before `run`; 0 if there was none.
    static Mark older(const Run& run, std::uint64_t address) noexcept;
    // Calls visit(run) for the runs in the block of `address`, newest first, until one returns
    // true; for none if nothing was met at the address.
    template <class Visit>
    bool any_run(std::uint64_t address, Visit&& visit);
    bool is_free(std::uint64_t address, std::uint64_t end);
    bool is_taken(const Wanted& wanted);
    bool meets_text(const Wanted& wanted);
    void mark(std::uint64_t address, std::uint64_t end, bool extends);
    bool extends_last(const TypeKey& type, std::uint64_t address, bool is_array) const noexcept {
        return !is_array && address == next_address_ && runs_.back().type == &type;
    }

    const Arena& arena_;
    PageMarks marks_;
    Column<Run> runs_;
    Column<Stretch> stretches_;
    Column<BackPointer> back_pointers_;
    Column<Extension> extensions_;
    Column<ShortString> short_strings_;
    std::vector<std::pair<std::size_t, std::uint64_t>> deferred_;  // back pointer, target address
    std::map<std::uint64_t, Container> containers_;
    Walk<Scan>::Stack stack_;
    LikelyTable likely_;
    std::uint64_t cursor_ = 0;
    std::uint64_t next_address_ = 0;  // where an object would have to lie to extend the last run
    std::uint64_t references_ = 0;    // the root is number 0
    std::uint64_t objects_ = 0;
    int walks_ = 0;
    bool learned_ = false;
    bool text_has_runs_ = false;  // since a graph pointed into strings
};

[[gnu::always_inline]] inline void Scan::add_stretch(const Stretch& stretch) {
    if (!stretches_.empty()) {
        Stretch& last = stretches_.back();
        if (last.address + last.bytes == stretch.address &&
            last.offset + last.bytes == stretch.offset && last.direct == stretch.direct) {
            last.bytes += stretch.bytes;
            return;
        }
    }
    stretches_.push_back(stretch);
}

template <class T>
void Scan::run(const T& root) {
    containers_.clear();
    walks_ = 0;
    do {
        begin_walk();
        const Extent extent = meet<T>(&root, 1);
        Walk<Scan>(*this, stack_)
            .run(Found<T>{reinterpret_cast<T*>(extent.address), extent.fresh ? extent.count : 0});
    } while (!end_walk());
}

// Is an object whole granules of one page? The general path reports errors of other pointers; in
// debug builds it checks heap pointers, too.
template <class E>
[[gnu::always_inline]] inline bool Scan::is_plain(std::uint64_t address,
                                                  std::uint64_t count) const noexcept {
    if constexpr (sizeof(E) > PageMarks::kPageBytes) return false;
    if constexpr (kChecksHeapPointers)
        if (!arena_.contains(reinterpret_cast<const void*>(address))) return false;
    return count <= PageMarks::kPageBytes && address % image_alignment(alignof(E)) == 0 &&
           PageMarks::granule(address) + granules_of<E>(count) <= PageMarks::kGranules &&
           containers_.empty();
}

template <class E>
std::uint64_t Scan::next_offset() const noexcept {
    return round_to(cursor_, image_alignment(alignof(E)));
}

template <class E>
[[gnu::always_inline]] inline void Scan::take_in_plain(std::uint64_t address, std::uint64_t count) {
    const std::uint64_t padded = granules_of<E>(count) * kImageGranule;
    const std::uint64_t offset = next_offset<E>();
    const bool direct = marks_.last_is_direct();
    __builtin_prefetch(reinterpret_cast<const std::byte*>(address) + kPrefetchBytes);
    add_stretch({address, offset, direct ? padded : count * sizeof(E), direct});
    cursor_ = offset + padded;
    ++objects_;
}

// The common case, small enough to stay in the caller: nothing was met there yet.
template <class E>
[[gnu::always_inline]] inline bool Scan::meet_fresh(std::uint64_t address, std::uint64_t count) {
    if (!is_plain<E>(address, count)) return false;
    const std::uint64_t granules = granules_of<E>(count);
    if (extends_last(kTypeKey<E>, address, count > 1)) {
        Run& run = runs_.back();
        const auto mark = static_cast<Mark>(runs_.size());
        if (!marks_.claim({address, granules, mark, true}, run.links)) return false;
        ++run.count;
    } else {
        PageMarks::Links links;
        const auto mark = static_cast<Mark>(runs_.size() + 1);
        if (!marks_.claim({address, granules, mark, false}, links)) return false;
        runs_.push_back({address, next_offset<E>(), count, &kTypeKey<E>, count > 1, links});
    }
    take_in_plain<E>(address, count);
    next_address_ = count > 1 ? 0 : address + granules * kImageGranule;
    return true;
}

// Strings are most of the objects of many graphs, and pointers into them are rare. Without such a
// pointer they have no runs.
template <class C>
[[gnu::always_inline]] inline bool Scan::meet_fresh_text(std::uint64_t address,
                                                         std::uint64_t count) {
    if (text_has_runs_ || !is_plain<C>(address, count) ||
        !marks_.claim_unnamed(address, granules_of<C>(count)))
        return false;
    take_in_plain<C>(address, count);
    next_address_ = 0;
    ++references_;
    return true;
}

template <class C>
[[gnu::noinline]] void Scan::meet_text(const void* target, std::uint64_t count) {
    if (!meet_fresh_text<C>(reinterpret_cast<std::uint64_t>(target), count))
        meet_out_of_line<C>(target, count);
}

// Pointers often lead to the objects that the last one of their type led to, such as elements of
// one table. These objects were met and checked.
template <class E>
[[gnu::always_inline]] inline bool Scan::meet_likely(std::uint64_t address) {
    const LikelyTargets& likely = likely_.of(kTypeKey<E>);
    if (!likely.has<E>(address)) return false;
    back_pointers_.push_back({references_++, likely.offset + (address - likely.start)});
    return true;
}

inline Mark Scan::older(const Run& run, std::uint64_t address) noexcept {
    const std::uint64_t block = address / PageMarks::kBlockBytes;
    if (run.address / PageMarks::kBlockBytes == block) return run.links.first;
    const std::uint64_t last = run.address + run.bytes() - 1;
    return last / PageMarks::kBlockBytes == block ? run.links.last : 0;
}

// The other common case: exactly an object, or elements of an array, that were met with the same
// type. Those were checked then.
template <class E>
bool Scan::meet_again(std::uint64_t address, std::uint64_t count) {
    constexpr std::uint64_t kStride = kSingleStride<E>;
    for (Mark mark = marks_.newest(address); mark != 0;) {
        const Run& run = runs_[mark - 1];
        const std::uint64_t delta = address - run.address;
        const std::uint64_t stride = run.is_array ? sizeof(E) : kStride;
        const std::uint64_t index = run.is_array ? delta / sizeof(E) : delta / kStride;
        if (run.type == &kTypeKey<E> && address >= run.address && index * stride == delta &&
            index < run.count && count <= (run.is_array ? run.count - index : 1)) {
            likely_.of(*run.type) = {run.address, run.count * stride, run.offset, run.type,
                                     run.is_array};
            back_pointers_.push_back({references_, run.offset + delta});
            return true;
        }
        mark = older(run, address);
    }
    return false;
}

template <class E>
[[gnu::always_inline]] inline Scan::Extent Scan::meet(const void* target, std::uint64_t count) {
    const auto address = reinterpret_cast<std::uint64_t>(target);
    Extent extent;
    if (meet_fresh<E>(address, count))
        extent = {address, count, true};
    else if (!meet_again<E>(address, count))
        extent = meet_any({address, count, kTypeKey<E>});
    ++references_;
    return extent;
}

template <class E>
[[gnu::noinline]] Found<E> Scan::meet_out_of_line(const void* target, std::uint64_t count) {
    const Extent extent = meet<E>(target, count);
    return {reinterpret_cast<E*>(extent.address), extent.fresh ? extent.count : 0};
}

// Inline only for most references: null, empty, short, or like the last one.
template <class T>
[[gnu::always_inline]] inline Found<Target<T>> Scan::follow(T& reference) {
    using E = Target<T>;
    if constexpr (kForm<T> == Form::pointer) {
        const E* target = nullptr;
        std::memcpy(&target, &reference, sizeof target);
        if (target == nullptr || meet_likely<E>(reinterpret_cast<std::uint64_t>(target))) return {};
        return meet_out_of_line<E>(target, 1);
    } else if constexpr (kForm<T> == Form::sequence) {
        if (reference.empty()) return {};
        return meet_out_of_line<E>(reference.data(), reference.size());
    } else {
        using Image = StringImage<E>;
        const auto* image = reinterpret_cast<const std::byte*>(&reference) +
                            kAllocatorBytes<detail::TextTraits<T>::kPolymorphic>;
        const auto* data = reinterpret_cast<const std::byte*>(reference.data());
        if (data == image + offsetof(Image, local)) return {};
        if (reference.size() <= Image::kLocal) {
            note_short_string(image, sizeof(E));
            return {};
        }
        meet_text<E>(data, reference.size() + 1);
        return {};  // characters refer to nothing
    }
}

template <class P>
[[gnu::always_inline]] inline std::uint64_t Scan::follow_likely(P* pointers, std::uint64_t count) {
    using E = Target<P>;
    const LikelyTargets likely = likely_.of(kTypeKey<E>);
    if (likely.type != &kTypeKey<E>) return 0;
    return likely.is_array ? follow_likely<sizeof(E)>(pointers, count, likely)
                           : follow_likely<kSingleStride<E>>(pointers, count, likely);
}

template <std::uint64_t Stride, class P>
[[gnu::noinline]] std::uint64_t Scan::follow_likely(P* pointers, std::uint64_t count,
                                                    const LikelyTargets& likely) {
    BackPointer* pointer = back_pointers_.room_for(count);
    std::uint64_t i = 0, reference = references_;
    for (; i < count; ++i) {
        std::uint64_t address = 0;
        std::memcpy(&address, &pointers[i], sizeof address);
        if (address == 0) continue;
        if (!likely.has_at<Stride>(address)) break;
        *pointer++ = {reference++, likely.offset + (address - likely.start)};
    }
    back_pointers_.commit(pointer);
    references_ = reference;
    return i;
}

// Objects that were allocated one after the other are the common case: they are taken in together,
// for little more than reading their pointers.
template <class P>
void Scan::follow_leaves(P* pointers, std::uint64_t count) {
    using E = Target<P>;
    constexpr std::uint64_t kStride = kSingleStride<E>;
    constexpr std::uint64_t kWorthwhile = 8;  // objects; below, the general path is as fast
    const auto address_at = [&](std::uint64_t i) {
        std::uint64_t address = 0;
        std::memcpy(&address, &pointers[i], sizeof address);
        return address;
    };
    for (std::uint64_t i = 0; i < count;) {
        const std::uint64_t first = address_at(i);
        std::uint64_t end = i + 1;
        for (std::uint64_t next = first + kStride; end < count && address_at(end) == next; ++end)
            next += kStride;
        if (end - i >= kWorthwhile && meet_neighbours(first, end - i, kTypeKey<E>)) {
            i = end;
            continue;
        }
        for (; i < end; ++i) follow(pointers[i]);
    }
}

}  // namespace verbatim::objects
