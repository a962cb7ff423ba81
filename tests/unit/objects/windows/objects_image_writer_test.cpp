// Where the bytes of an image leave from: large arrays of the arena are posted as they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory_resource>
#include <span>
#include <vector>

#include "link/image_writer.hpp"
#include "windows/objects_windows.hpp"

namespace verbatim {
namespace {

using objects::ImageWriter;
using objects::Piece;
using test::in_time;
using test::Pair;
using Array = std::pmr::vector<std::uint32_t>;

Array make_array(std::pmr::memory_resource* resource) {
    Array array(test::kMany, resource);
    for (std::size_t i = 0; i < array.size(); ++i) array[i] = static_cast<std::uint32_t>(i * 7);
    return array;
}

// Segment by segment, in the receiver's memory: it is in this process.
bool has_arrived(const objects::wire::Binding& at, const objects::BorrowedWindows& windows,
                 std::span<const std::byte> bytes) {
    bool is_equal = at.count >= bytes.size() / objects::kSegmentBytes;
    for (std::uint64_t slot = at.slot; !bytes.empty(); ++slot) {
        const std::size_t count = std::min<std::size_t>(bytes.size(), objects::kSegmentBytes);
        const RemoteExtent to = windows.place(at.window, slot * objects::kSegmentBytes);
        is_equal = is_equal && to.bytes >= count &&
                   std::memcmp(reinterpret_cast<const void*>(to.address), bytes.data(), count) == 0;
        bytes = bytes.subspan(count);
    }
    return is_equal;
}

// Does a device read the array itself?
bool is_posted_as_it_lies(Pair& pair, const Array& array) {
    objects::PackTables tables(pair.sender->arena_ptr());
    objects::PackOptions at_once;
    at_once.flush_bytes = 2 * array.size() * sizeof array[0];
    objects::Packer<Array> packer(tables, array, at_once);
    EXPECT_TRUE(packer.run());
    const std::span<const Piece> pieces = packer.staging().pieces();
    EXPECT_EQ(pieces.size(), 2u);
    EXPECT_EQ(pieces.back().from, reinterpret_cast<const std::byte*>(array.data()));
    const auto link = objects::object_link(*pair.sender);
    ImageWriter writer(*link, nullptr);
    const auto go_on_until = [&](auto done) {
        for (const Deadline deadline = in_time(); !done();) {
            if (deadline.passed()) return ADD_FAILURE() << "it is not written", void();
            (void)writer.take_sign_of_life();
            (void)(readable(*pair.sender) || readable(*pair.receiver));
        }
    };
    go_on_until([&] { return writer.bind(pieces, packer.staging().cursor()) == 0; });
    go_on_until([&] { return writer.write(pieces); });
    const bool reads = writer.reads_graph();
    go_on_until([&] { return writer.retire(); });
    EXPECT_FALSE(writer.reads_graph());
    EXPECT_EQ(writer.bindings().back().segment, 1u) << "behind the root's";
    EXPECT_TRUE(has_arrived(writer.bindings().back(), link->outgoing().windows,
                            std::as_bytes(std::span(array))));
    return reads;
}

TEST(ImageWriter, posts_a_large_array_of_the_arena_from_where_it_lies_and_copies_others) {
    Pair pair;
    const Array there = make_array(&pair.sender_context.arena());
    const Array elsewhere = make_array(std::pmr::new_delete_resource());
    (void)pair.transfer(there);  // leaves windows of that size with the sender
    EXPECT_TRUE(is_posted_as_it_lies(pair, there));
    EXPECT_FALSE(is_posted_as_it_lies(pair, elsewhere));
    const auto got = pair.transfer(there);
    EXPECT_TRUE(std::equal(got->begin(), got->end(), there.begin(), there.end()));
}

}  // namespace
}  // namespace verbatim
