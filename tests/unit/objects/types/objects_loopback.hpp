// A loopback packs a graph and mends its image in this process, through plain memory: for tests of
// types and of the walks, without a connection.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/graph/open_walks.hpp>
#include <verbatim/objects/types/all.hpp>

#include "shapes/objects_classes.hpp"

namespace verbatim::objects {

// A receiver's type R may differ from the sender's in what it checks.
template <class T, class R = T>
class Loopback {
  public:
    explicit Loopback(std::shared_ptr<Arena> arena = std::make_shared<Arena>(ArenaOptions{}))
        : arena_(std::move(arena)), packing_(arena_) {}

    // The received root; its memory lives as long as this object, until the next call.
    const R& send(const T& root, PackOptions options = {}) {
        memory_.clear();
        options.flush_bytes = flush_bytes;
        Packer<T> packer(packing_, root, options);
        Mender<R> mender(mending_, options.acyclic);
        for (bool done = false; !done;) {
            done = packer.run();
            if (packer.take_restart()) begin_again(mender);
            carry(packer, mender, done);
            if (mender.run() != done) Mending::corrupt("the two walks differ");
        }
        expect_unchanged();
        packer.staging().buffers().set_retired();
        image_bytes = packer.image_bytes();
        objects = packer.objects();
        sent_counts = packer.class_counts();
        received_counts = mender.class_counts();
        return *static_cast<R*>(mender.root());
    }
    Arena& arena() noexcept { return *arena_; }

    std::uint64_t flush_bytes = kSegmentBytes;
    std::uint64_t image_bytes = 0, objects = 0, records = 0, restarts = 0;
    ClassCounts sent_counts, received_counts;
    // May change the image before it is looked at.
    std::function<void(std::uint64_t offset, std::byte* bytes, std::uint64_t count)> tamper;

  private:
    struct Free {
        void operator()(std::byte* memory) const {
            ::operator delete (memory, std::align_val_t{4096});
        }
    };
    using Memory = std::unique_ptr<std::byte, Free>;

    void begin_again(Mending& mender) {
        mender.restart();
        told_segments_ = 0;
        ++restarts;
    }
    void carry(Packing& packer, Mending& mender, bool done) {
        Staging& staging = packer.staging();
        expect_unchanged();
        staging.buffers().set_retired();
        const std::uint64_t segments = segment_of(staging.cursor() + kSegmentBytes - 1);
        if (told_segments_ == 0) bases_.clear();
        if (const std::uint64_t more = segments - told_segments_; more > 0) {
            std::byte* const memory = new_memory(more * kSegmentBytes);
            mender.add_memory(told_segments_, memory, more * kSegmentBytes);
            for (std::uint64_t i = 0; i < more; ++i) bases_.push_back(memory + i * kSegmentBytes);
            told_segments_ = segments;
        }
        for (const Piece& piece : staging.pieces()) {
            put(piece.offset, piece.from, piece.bytes);
            if (piece.is_staged)
                posted_.push_back({piece.from, {piece.from, piece.from + piece.bytes}});
        }
        for (const Patch& patch : staging.patches()) put(patch.offset, patch.data, patch.bytes);
        test::tell_classes(packing_, mending_.told_classes());
        records += packer.places().size() + packer.arrays().size();
        mender.add_records(packer.places(), packer.arrays());
        mender.advance_to({staging.cursor(), packer.steps(), packer.references(), done});
        packer.set_announced();
        if (done) told_segments_ = 0;
    }
    // A device may read what was posted until its retirement.
    void expect_unchanged() {
        for (const Posted& posted : posted_)
            if (!std::equal(posted.bytes.begin(), posted.bytes.end(), posted.from))
                Mending::corrupt("a buffer was filled again before it was read");
        posted_.clear();
    }
    // Stale bytes of other graphs are what windows hold.
    std::byte* new_memory(std::uint64_t bytes) {
        auto* memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
        std::memset(memory, 0xa5, bytes);
        memory_.emplace_back(memory);
        return memory;
    }
    void put(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) {
        std::byte* const to = bases_[segment_of(offset)] + offset % kSegmentBytes;
        std::memcpy(to, from, bytes);
        if (tamper) tamper(offset, to, bytes);
    }

    struct Posted {
        const std::byte* from = nullptr;
        std::vector<std::byte> bytes;
    };

    std::shared_ptr<Arena> arena_;
    PackTables packing_;
    MendTables mending_;
    std::vector<Memory> memory_;
    std::vector<std::byte*> bases_;
    std::vector<Posted> posted_;  // since the last retirement
    std::uint64_t told_segments_ = 0;
};

}  // namespace verbatim::objects
