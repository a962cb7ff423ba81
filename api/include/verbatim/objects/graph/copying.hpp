// A copy of a graph is made within this process: the graph is packed into a private block, and
// mended there. Nothing of the original is modified or referred to. Threads: one at a time.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include <verbatim/objects/graph/mender.hpp>
#include <verbatim/objects/graph/packer.hpp>
#include <verbatim/objects/private_block.hpp>

namespace verbatim::objects {

// The tables of both walks, and memory in which objects are staged, without a device.
struct LocalTables {
    LocalTables();

    PackTables packing;
    MendTables mending;
};

// All that a receiver must be told of an image beside its bytes.
struct ImageFacts {
    Mending::Told told;
    std::vector<PlaceRecord> places;
    std::vector<ArrayRecord> arrays;

    void add(const Packing& packing);
    void clear() noexcept;
};

// Runs a walk to its end. What each part of it has staged goes to `put(staging)`, after `drop()`
// where all that went before is void. The facts of the whole image.
template <class Drop, class Put>
ImageFacts run_whole(Packing& packing, Drop drop, Put put) {
    ImageFacts facts;
    for (bool is_done = false; !is_done;) {
        is_done = packing.run();
        if (packing.take_restart()) {
            facts.clear();
            drop();
        }
        put(packing.staging());
        facts.add(packing);
        packing.set_announced();
        packing.staging().set_retired();
    }
    facts.told = {packing.staging().cursor(), packing.steps(), packing.references(), true};
    return facts;
}

// Packs a whole graph into the block, as an image. Throws Error as send() does, out_of_memory.
ImageFacts pack_into(PrivateBlock& block, Packing& packing);
// Checks and mends an image of one piece. Throws Error(corrupt_message).
void mend_at(std::byte* image, const ImageFacts& facts, Mending& mending);

// Images are kept without the classes that their sender may have announced.
template <class Root>
inline constexpr bool kHasVirtualFunctions = []<class... T>(List<T...>) {
    return (std::is_polymorphic_v<T> || ...);
}(typename Closure<Root>::Types{});

// A copy of the graph in a block of its own.
template <class T>
struct Copied {
    PrivateBlock block;
    T* root = nullptr;
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
};
template <class T>
Copied<T> copy_graph(const T& root) {
    static_assert(!kHasVirtualFunctions<T>,
                  "verbatim: graphs with virtual functions cannot be compacted or promoted");
    LocalTables tables;
    Packer<T> packer(tables.packing, root, {});
    Mender<T> mender(tables.mending, false);
    Copied<T> copy;
    copy.block = PrivateBlock::reserve(kMaxImageBytes);
    const ImageFacts facts = pack_into(copy.block, packer);
    copy.block.trim_to(facts.told.cursor);
    mend_at(copy.block.data(), facts, mender);
    copy.root = static_cast<T*>(mender.root());
    copy.objects = mender.objects();
    copy.bytes = facts.told.cursor;
    return copy;
}

}  // namespace verbatim::objects
