// A mending is the receiver's walk over one image, without the types. It makes a graph of the bytes
// of a peer, in place, as far as they have come. Mender<T> (mender.hpp) does the walk. Every
// length, offset, type and value is checked; a failed check throws Error(corrupt_message), and
// nothing of the graph is handed out. Trust: the peer must not rewrite the image meanwhile, unless
// it was copied out. Records are copies. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

#include <verbatim/objects/classes/static_table.hpp>
#include <verbatim/objects/classes/told_classes.hpp>
#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/image.hpp>
#include <verbatim/objects/graph/image_cursor.hpp>
#include <verbatim/objects/graph/placement.hpp>
#include <verbatim/objects/graph/records.hpp>
#include <verbatim/objects/size_queues.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

class Mending;

// Objects that are still to be mended. As with PackFrame, a step reads its frame first.
struct MendFrame {
    void (*step)(Mending&, const MendFrame&) = nullptr;
    std::byte* at = nullptr;
    std::uint64_t count = 0;
    std::uint64_t state = 0;  // of containers
};

// A reference that waits until the rest of the graph is placed.
struct WaitingField {
    std::byte* field = nullptr;
    std::uint64_t count = 0;
};

// The same, of an open graph.
struct OpenWaitingField {
    std::byte* field = nullptr;
    std::uint64_t count = 0;
    std::uint16_t number = 0;  // of the target's type
};

// A reference to an object that is placed later.
struct LaterReference {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    const TypeKey* type = nullptr;
};

// A pointer to characters, which must end with a zero in their object.
struct TextReference {
    std::uint64_t offset = 0;
    std::uint64_t character_bytes = 1;
};

// An object whose type has a validator, called when the graph is whole.
struct ToValidate {
    bool (*is_valid)(const std::byte*) = nullptr;
    const std::byte* object = nullptr;
    const TypeKey* type = nullptr;
};

class Mending;

// A container that is linked when all of its nodes are mended.
struct ToLink {
    void (*link)(Mending&, std::byte*) = nullptr;
    std::byte* image = nullptr;
};

// The tables of a walk, kept from graph to graph. Threads: one at a time.
struct MendTables {
    Placement placement;
    Column<MendFrame> stack;
    std::vector<Column<WaitingField>> waiting;  // by inner type
    Column<LaterReference> later;
    Column<ToLink> to_link;
    Column<ToValidate> to_validate;
    Column<TextReference> texts;
    Records records;
    ImageCursor image;
    // Of open graphs.
    std::shared_ptr<ToldClasses> classes;
    StaticTable<PredictedUse> predicted;
    SizeQueues<OpenWaitingField> open_waiting;

    // Made here where no connection has its own.
    ToldClasses& told_classes();
};

class Mending {
  public:
    Mending(const Mending&) = delete;
    Mending& operator=(const Mending&) = delete;

    // ---- what the sender tells, in this order for each part of the graph ----
    // Memory of the image's segments from `first` on; `bytes` are whole segments but for the last.
    void add_memory(std::uint64_t first, std::byte* memory, std::uint64_t bytes) {
        tables_.image.add_memory(first, memory, bytes);
    }
    void add_records(std::span<const PlaceRecord> places, std::span<const ArrayRecord> arrays) {
        tables_.records.add(places, arrays);
    }
    // The sender's classes, before the first object of them.
    ToldClasses& classes() { return tables_.told_classes(); }
    // So far the sender's walk has come, and all bytes before `cursor` are there.
    struct Told {
        std::uint64_t cursor = 0;
        std::uint64_t steps = 0;
        std::uint64_t references = 0;
        bool is_last = false;
    };
    // Throws Error(corrupt_message) if that contradicts what was told before.
    void advance_to(const Told& told);
    // Everything is void; the sender begins anew.
    void restart();

    // `link` is called with the container's image when the walk is over. Keys that it compares may
    // be of nodes that other references met, which wait for their walk until then.
    void link_later(void (*link)(Mending&, std::byte*), std::byte* image) {
        tables_.to_link.push_back({link, image});
    }
    // Walks as far as it was told. True once the graph is whole and checked.
    bool run() { return run_(*this); }
    bool is_done() const noexcept { return done_; }
    void* root() const noexcept { return root_; }
    std::uint64_t objects() const noexcept { return objects_; }
    const ClassCounts& class_counts() const noexcept { return class_counts_; }
    std::uint64_t records() const noexcept { return tables_.records.count(); }
    std::uint64_t image_bytes() const noexcept { return tables_.image.told(); }

    [[noreturn]] static void corrupt(const char* what) { throw_corrupt(what); }

  protected:
    using Run = bool (*)(Mending&);
    Mending(MendTables& tables, Run walk, std::span<const TypeKey* const> types,
            std::size_t inner_types, bool acyclic);
    ~Mending() = default;

    // Prefetch distance: the image is visited nearly in order.
    static constexpr std::size_t kPrefetchBytes = 1024;
    // The count of a reference to characters that only a record tells.
    static constexpr std::uint64_t kUntold = ~std::uint64_t{0};

    // The sender has come further than this walk.
    bool may_go_on() const noexcept { return steps_ < told_.steps; }
    // Pops and runs frames as far as the sender has come. False: it must come further.
    bool run_frames();
    // The object that others lie in.
    struct Place {
        Placement::Object object;
        Held held = Held::no;
    };
    // `count` objects of `type` lie at `offset`. Or they will, which is checked in the end; then
    // there is no object yet.
    Place refer(std::uint64_t offset, std::uint64_t count, const TypeKey& type);
    // Nothing is left to be walked: is everything used up and in its place?
    void finish();
    // A text of such characters starts at `offset`. Most lie in an array that ends with a zero;
    // the others are looked through in the end.
    std::byte* refer_to_text(std::uint64_t offset, const TypeKey& type);
    Place place_of(const LaterReference& reference) const;

    MendTables& tables_;
    Run run_;
    std::span<const TypeKey* const> types_;
    bool acyclic_;
    bool done_ = false;
    void* root_ = nullptr;
    std::uint64_t references_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t objects_ = 0;
    ClassCounts class_counts_;
    Told told_;

  private:
    // A text that was referred to before: a few literals often make up most texts of a graph.
    struct KnownText {
        std::uint64_t offset = 0;
        const TypeKey* type = nullptr;
    };
    std::array<KnownText, 16> known_texts_;

    void check_texts() const;
    [[noreturn]] static void refuse(const ToValidate& check);
};

}  // namespace verbatim::objects
