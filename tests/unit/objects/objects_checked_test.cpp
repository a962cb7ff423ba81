// Programs that are built with VERBATIM_CHECK_POINTERS=1, as unoptimised ones are without it: the
// sender refuses pointers to memory that cannot be read, each time it is sent.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <new>

#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim {
namespace {

struct Leaf {
    std::uint64_t value = 0;
};
struct Branch {
    const Leaf* leaf = nullptr;
};

TEST(CheckedPointers, lead_to_memory_that_can_be_read_or_the_graph_is_refused) {
    test::Pair pair;
    constexpr std::size_t kPage = 4096;
    void* const page =
        mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    const Branch branch{new (page) Leaf{7}};
    EXPECT_EQ(pair.transfer(branch)->leaf->value, 7u);
    ASSERT_EQ(mprotect(page, kPage, PROT_NONE), 0);
    const Error error = test::error_of([&] { send(*pair.sender, branch); });
    EXPECT_EQ(error.code(), Errc::bad_pointer);
    EXPECT_NE(std::string(error.what()).find("unmapped memory"), std::string::npos) << error.what();
    ASSERT_EQ(mprotect(page, kPage, PROT_READ), 0);
    EXPECT_EQ(pair.transfer(branch)->leaf->value, 7u);
    munmap(page, kPage);
}

}  // namespace
}  // namespace verbatim
