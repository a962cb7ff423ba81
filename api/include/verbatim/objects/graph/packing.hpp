// A packing is the sender's walk over one graph, without the types: its tables, and what it has
// for the receiver. Packer<T> (packer.hpp) does the walk. Nothing of the graph is modified; it must
// not change until its bytes have left. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/classes/sent_classes.hpp>
#include <verbatim/objects/classes/static_table.hpp>
#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/cycle_search.hpp>
#include <verbatim/objects/graph/staging.hpp>
#include <verbatim/objects/graph/targets.hpp>
#include <verbatim/objects/size_queues.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

class Packing;

// Objects whose references are still to be followed. A step's frame is gone with the first frame
// that the step puts off: it reads what it needs before.
struct PackFrame {
    void (*step)(Packing&, const PackFrame&) = nullptr;
    const std::byte* source = nullptr;
    std::uint64_t offset = 0;  // of their copies
    std::uint64_t count = 0;
};

// A reference to what may lie inside an object that the walk has not met yet.
struct WaitingReference {
    const std::byte* target = nullptr;
    std::uint64_t offset = 0;  // of the reference's field
    std::uint64_t count = 0;
    bool is_text = false;      // the receiver does not know the count
    std::uint16_t number = 0;  // of the target's type; of open graphs
};

// The tables of a walk, which are kept from graph to graph: touching fresh memory costs more than
// filling it. Threads: one at a time.
struct PackTables {
    explicit PackTables(const std::shared_ptr<Arena>& arena);
    // Made here where no connection has its own.
    SentClasses& sent_classes();

    std::shared_ptr<Arena> arena;
    Targets targets;
    Staging staging;
    Column<PackFrame> stack;
    std::vector<Column<WaitingReference>> waiting;  // by inner type
    Column<PlaceRecord> places;
    Column<ArrayRecord> arrays;
    // Of open graphs.
    std::shared_ptr<SentClasses> classes;
    StaticTable<PredictedTable> predicted;
    SizeQueues<WaitingReference> open_waiting;
};

// The walk leaves nothing out and visits nothing twice, however the graph is cyclic, unless the
// caller vouches for `acyclic`: then shared objects are sent once for each reference.
struct PackOptions {
    bool acyclic = false;
    std::uint64_t most_bytes = kMaxImageBytes;  // of the image
    std::uint64_t flush_bytes = kSegmentBytes;  // staged before run() returns
    std::uint64_t hold_bytes = 0;               // see Packing::may_hold_back()
    std::size_t alignment = kImageGranule;      // set by the packer
    bool may_have_cycles = true;                // likewise

    bool searches() const noexcept { return acyclic && may_have_cycles; }
};

class Packing {
  public:
    Packing(const Packing&) = delete;
    Packing& operator=(const Packing&) = delete;

    // Walks on. True once everything is staged; false after about as many bytes as a segment has,
    // to be sent before the next call. Throws Error(bad_pointer | graph_too_large). Never blocks.
    bool run();

    // Before anything has left, after run() has returned false: the walk should go on before it is
    // sent. So it is where most objects wait to be followed, and lead to others that were met. Each
    // of these references would need a record once its copy has left. Never beyond `hold_bytes`.
    bool may_hold_back() noexcept;

    // What the receiver must be told with the bytes that are staged now.
    Staging& staging() noexcept { return tables_.staging; }
    std::span<const PlaceRecord> places() const noexcept { return tables_.places.span(); }
    std::span<const ArrayRecord> arrays() const noexcept { return tables_.arrays.span(); }
    std::uint64_t steps() const noexcept { return steps_; }
    std::uint64_t references() const noexcept { return references_; }
    // All of it was told; of a void walk, none of it will be.
    void set_announced();
    // True after the walk has begun anew, because an object turned out to lie inside a larger one:
    // the receiver must forget everything of the graph. Resets itself.
    bool take_restart() noexcept { return std::exchange(restarted_, false); }

    std::uint64_t objects() const noexcept { return objects_; }
    // Null: no object with virtual functions was met.
    const SentClasses* classes() const noexcept { return tables_.classes.get(); }
    const ClassCounts& class_counts() const noexcept { return class_counts_; }
    std::uint64_t told_records() const noexcept { return told_records_; }
    std::uint64_t image_bytes() const noexcept { return tables_.staging.cursor(); }

  protected:
    using Run = bool (*)(Packing&);
    Packing(PackTables& tables, Run walk, std::span<const TypeKey* const> types,
            std::size_t inner_types, PackOptions options);
    ~Packing() = default;

    // Where the fields of an object lie that a void walk only looks at: in no segment.
    static constexpr std::uint64_t kNowhere = std::uint64_t{1} << 62;
    static constexpr std::uint64_t kMostRestarts = 64;
    static constexpr std::size_t kMostRecords = 8192;  // between two announcements

    bool wants_flush() const noexcept { return tables_.staging.cursor() >= flush_at_; }
    // A step may take the next frame as well: no search has to see it.
    bool may_go_on() const noexcept { return !cycles_.is_on() && !wants_flush(); }
    // Pops and runs frames until there are none, or a flush is due.
    void run_frames();
    void begin_walk();
    // A reference leads to `offset`; its field is at `word`, if that is not zero.
    [[gnu::always_inline]] void refer(Slot word, std::uint64_t reference, std::uint64_t offset) {
        ++met_again_;
        std::byte* const field = word.offset == 0 ? nullptr : tables_.staging.staged(word.offset);
        if (field == nullptr) return tell(reference, offset);
        const std::uint64_t value = kPlaceBit | offset;
        __builtin_memcpy(field, &value, sizeof value);
    }
    void tell(std::uint64_t reference, std::uint64_t offset);

    void restart();
    // No flush is due, but a search for cycles: of an acyclic walk, before its first flush.
    bool must_begin_search() noexcept;
    void check_size() const;

    PackTables& tables_;
    Run run_;
    PackOptions options_;
    std::uint64_t steps_ = 0;
    std::uint64_t references_ = 0;
    std::uint64_t objects_ = 0;
    std::uint64_t met_again_ = 0;
    CycleSearch cycles_;
    ClassCounts class_counts_;
    std::uint64_t flush_at_ = kSegmentBytes;  // offset
    bool done_ = false;

  private:
    void run_frames_searching();

    std::uint64_t told_records_ = 0;
    std::uint64_t restarts_ = 0;
    bool restarted_ = false;
};

}  // namespace verbatim::objects
