// The sender's side of the walk: finds every object of a graph once, gives each its place in the
// image that the receiver will hold, and notes the references that the receiver cannot infer (Naos
// §3.1).
//
// The image is the sequence of objects in the order of the walk, each on a multiple of 16 bytes (or
// of its own alignment, if larger). Objects that are neighbours both in memory and in the walk form
// one run; runs are what is sent. Nothing of the graph is modified.
//
// A pointer may lead into the middle of an object that the walk meets only later (an element of a
// vector, a member). Then a second walk starts with the larger object known: it is taken in when
// the first pointer into it is met, so that identity is never lost. Threads: one; the graph must
// not change during the scan and the transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/page_marks.hpp>
#include <verbatim/objects/type_info.hpp>
#include <verbatim/objects/walk.hpp>

namespace verbatim::objects {

// Each object of an image starts on a multiple of this.
inline constexpr std::uint64_t kImageGranule = 16;

constexpr std::uint64_t round_to(std::uint64_t value, std::uint64_t alignment) noexcept {
    return (value + alignment - 1) / alignment * alignment;
}
constexpr std::uint64_t image_alignment(std::size_t alignment) noexcept {
    return alignment > kImageGranule ? alignment : kImageGranule;
}

// Objects of one type that lie side by side in memory and in the image: either `count` single
// objects, each on a granule of its own, or one array of `count` elements.
struct Run {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;  // in the image
    std::uint64_t count = 0;
    const TypeInfo* type = nullptr;
    bool is_array = false;
    bool direct = false;  // whole granules of the arena: may be sent from where it lies

    std::uint64_t stride() const noexcept {
        return is_array ? type->bytes : round_to(type->bytes, kImageGranule);
    }
    std::uint64_t bytes() const noexcept {  // without the padding behind the last object
        return (count - 1) * stride() + type->bytes;
    }
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
    explicit Scan(const Arena& arena) noexcept : arena_(arena) {}

    // Walks the graph. Throws Error(bad_pointer | graph_too_large).
    template <class T>
    void run(const T& root);

    const std::vector<Run>& runs() const noexcept { return runs_; }
    const std::vector<BackPointer>& back_pointers() const noexcept { return back_pointers_; }
    const std::vector<Extension>& extensions() const noexcept { return extensions_; }
    const std::vector<ShortString>& short_strings() const noexcept { return short_strings_; }
    std::uint64_t image_bytes() const noexcept { return cursor_; }
    std::uint64_t references() const noexcept { return references_; }
    std::uint64_t objects() const noexcept { return objects_; }

    // ---- the side of Walk ----
    template <class T>
    Found<Target<T>> follow(T& reference);
    template <class P>
    void follow_leaves(P* pointers, std::uint64_t count);
    template <class T>
    static bool engaged(const T& optional) noexcept {
        return optional.has_value();
    }

  private:
    // An object that an earlier pointer led into before it was met itself: [address, end).
    struct Container {
        std::uint64_t end = 0;
        std::uint64_t count = 0;
        const TypeInfo* type = nullptr;
        bool met = false;  // in this walk
    };
    // What following a reference found. Not fresh: met before.
    struct Extent {
        std::uint64_t address = 0;
        std::uint64_t count = 0;
        bool fresh = false;
    };
    // What a reference asks for.
    struct Wanted {
        std::uint64_t address = 0;
        std::uint64_t count = 0;
        const TypeInfo& type;
        std::uint64_t bytes() const noexcept { return count * type.bytes; }
        std::uint64_t end() const noexcept { return address + bytes(); }
    };
    static constexpr Mark kChained = Mark{1} << 31;  // several runs share the granule
    static constexpr int kMaxWalks = 8;
#if defined(NDEBUG)
    static constexpr bool kChecksHeapPointers = false;
#else
    static constexpr bool kChecksHeapPointers = true;
#endif

    void begin_walk() noexcept;
    bool end_walk();  // false: walk again, containers were learned
    void resolve_deferred();

    template <class E>
    Extent meet(const void* target, std::uint64_t count);
    template <class E>
    bool meet_fresh(std::uint64_t address, std::uint64_t count);
    void add_run(const Run& run);
    bool meet_stretch(std::uint64_t address, std::uint64_t count, const TypeInfo& type);
    Extent meet_any(const Wanted& wanted);
    Extent take_in(const Wanted& wanted);
    enum class Seen : std::uint8_t { no, yes, conflict };
    Seen point_back(const Wanted& wanted);
    bool meet_container(const Wanted& wanted, Extent& extent);
    Extent learn(const Wanted& wanted);

    void check(const Wanted& wanted) const;
    [[noreturn]] void refuse(const Wanted& wanted, const std::string& cause) const;
    void note_short_string(const void* string_image, std::uint32_t character_bytes);

    // Calls visit(run) for the runs of a mark until one returns true.
    template <class Visit>
    bool any_run(Mark mark, std::uint64_t address, Visit&& visit) const;
    bool is_taken(const Wanted& wanted);
    void mark(std::uint64_t address, std::uint64_t end, Mark run);
    void chain(std::uint64_t address, Mark& mark, Mark run);

    const Arena& arena_;
    PageMarks marks_;
    std::vector<Run> runs_;
    std::vector<BackPointer> back_pointers_;
    std::vector<Extension> extensions_;
    std::vector<ShortString> short_strings_;
    std::vector<std::pair<std::size_t, std::uint64_t>> deferred_;  // back pointer, target address
    std::unordered_map<std::uint64_t, std::vector<Mark>> chains_;  // granule address -> runs
    std::map<std::uint64_t, Container> containers_;
    Walk<Scan>::Stack stack_;
    std::uint64_t cursor_ = 0;
    std::uint64_t next_address_ = 0;  // where an object would have to lie to extend the last run
    std::uint64_t references_ = 0;    // the root is number 0
    std::uint64_t objects_ = 0;
    int walks_ = 0;
    bool learned_ = false;
};

// Extends the last run by an object, or starts a new one.
inline void Scan::add_run(const Run& run) {
    if (!run.is_array && run.address == next_address_ && runs_.back().type == run.type)
        ++runs_.back().count;
    else
        runs_.push_back(run);
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

// The common case, small enough to stay in the caller: whole granules of one page, where nothing
// was met yet.
template <class E>
bool Scan::meet_fresh(std::uint64_t address, std::uint64_t count) {
    if constexpr (sizeof(E) > PageMarks::kPageBytes) return false;
    if (count > PageMarks::kPageBytes || !containers_.empty()) return false;
    const std::uint64_t bytes = count * sizeof(E);
    const std::uint64_t granules = (bytes + kImageGranule - 1) / kImageGranule;
    const std::size_t first = PageMarks::granule(address);
    if (address % image_alignment(alignof(E)) != 0 || first + granules > PageMarks::kGranules)
        return false;
    const auto* target = reinterpret_cast<const void*>(address);
    const bool direct = arena_.contains(target);
    // What is wrong with a pointer is for the general path to say; in debug builds it looks at heap
    // pointers, too.
    if (direct ? !arena_.is_allocated(target, bytes) : kChecksHeapPointers) return false;
    Mark* marks = marks_.page_marks(address);
    if (marks == nullptr) return false;
    Mark taken = 0;
    for (std::uint64_t i = 0; i < granules; ++i) taken |= marks[first + i];
    if (taken != 0) return false;
    const std::uint64_t offset = round_to(cursor_, image_alignment(alignof(E)));
    add_run({address, offset, count, &type_info<E>(), count > 1, direct});
    const auto mark = static_cast<Mark>(runs_.size());
    for (std::uint64_t i = 0; i < granules; ++i) marks[first + i] = mark;
    cursor_ = offset + granules * kImageGranule;
    next_address_ = count > 1 ? 0 : address + granules * kImageGranule;
    ++objects_;
    return true;
}

template <class E>
Scan::Extent Scan::meet(const void* target, std::uint64_t count) {
    const auto address = reinterpret_cast<std::uint64_t>(target);
    const Extent extent = meet_fresh<E>(address, count)
                              ? Extent{address, count, true}
                              : meet_any({address, count, type_info<E>()});
    ++references_;
    return extent;
}

template <class T>
Found<Target<T>> Scan::follow(T& reference) {
    using E = Target<T>;
    Extent extent;
    if constexpr (kForm<T> == Form::pointer) {
        const E* target = nullptr;
        std::memcpy(&target, &reference, sizeof target);
        if (target == nullptr) return {};
        extent = meet<E>(target, 1);
    } else if constexpr (kForm<T> == Form::sequence) {
        if (reference.empty()) return {};
        extent = meet<E>(reference.data(), reference.size());
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
        extent = meet<E>(data, reference.size() + 1);
    }
    return {reinterpret_cast<E*>(extent.address), extent.fresh ? extent.count : 0};
}

// Objects that were allocated one after the other are the common case: they are taken in together,
// for little more than reading their pointers.
template <class P>
void Scan::follow_leaves(P* pointers, std::uint64_t count) {
    using E = Target<P>;
    constexpr std::uint64_t kStride = round_to(sizeof(E), kImageGranule);
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
        if (end - i >= kWorthwhile && meet_stretch(first, end - i, type_info<E>())) {
            i = end;
            continue;
        }
        for (; i < end; ++i) follow(pointers[i]);
    }
}

}  // namespace verbatim::objects
