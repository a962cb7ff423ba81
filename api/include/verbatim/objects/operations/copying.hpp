// A copy of a graph is made within this process: the graph is packed into a private block, and
// mended there. Nothing of the original is modified or referred to. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
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

// A class that an image has objects of, by its number there. Its layout explains a difference.
struct ClassFact {
    std::uint64_t fingerprint = 0;
    std::string name;
    std::string layout;
};

// All that a receiver must be told of an image beside its bytes.
struct ImageFacts {
    Mending::Told told;
    std::vector<PlaceRecord> places;
    std::vector<ArrayRecord> arrays;
    std::vector<ClassFact> classes;  // by number, from 1 on

    void add(const Packing& packing);
    void add_classes(const Packing& packing);
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
        packing.staging().buffers().set_retired();
    }
    facts.add_classes(packing);
    facts.told = {packing.staging().cursor(), packing.steps(), packing.references(), true};
    return facts;
}

// Packs a whole graph into the block, as an image. Throws Error as send() does, out_of_memory.
ImageFacts pack_into(PrivateBlock& block, Packing& packing);
// Checks and mends an image of one piece, whose facts outlive the walk's tables or are of no
// classes. Throws Error: corrupt_message, and of classes what ToldClasses does.
void mend_at(std::byte* image, const ImageFacts& facts, Mending& mending);

// A copy of such an image is none that can be sent on: its classes have a connection's numbers.
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
    LocalTables tables;
    Packer<T> packer(tables.packing, root, {});
    Mender<T> mender(tables.mending, false);
    Copied<T> copy;
    copy.block = PrivateBlock::reserve(kMaxImageBytes);
    const ImageFacts facts = objects::pack_into(copy.block, packer);
    copy.block.trim_to(facts.told.cursor);
    objects::mend_at(copy.block.data(), facts, mender);
    copy.root = static_cast<T*>(mender.root());
    copy.objects = mender.objects();
    copy.bytes = facts.told.cursor;
    return copy;
}

}  // namespace verbatim::objects
