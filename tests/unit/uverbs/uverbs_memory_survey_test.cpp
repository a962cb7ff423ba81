// What is read out of /proc/self/smaps.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "uverbs/objects/memory_survey.hpp"

namespace verbatim::uverbs {
namespace {

constexpr std::string_view kText =
    "10000-14000 rw-p 00000000 00:00 0                          [heap]\n"
    "Size:                 16 kB\n"
    "VmFlags: rd wr mr mw me ac sd dc dd nr \n"
    "14000-18000 rw-s 00014000 00:01 77                         /memfd:verbatim-pages (deleted)\n"
    "VmFlags: rd wr sh mr mw me ms sd hg \n"
    "18000-1c000 rw-p 00000000 00:00 0 \n"
    "VmFlags: rd wr mr mw me lo ac \n"
    "1d000-20000 r--p 00000000 00:00 0 [anon:a name]\n"
    "VmFlags: rd mr mw me ac \n"
    "20000-24000 rw-p 00003000 fe:00 77                         /lib/some file\n"
    "VmFlags: rd wr mr mw me ac \n"
    "24000-28000 rw-p 00000000 00:00 0                          [stack]\n"
    "VmFlags: rd wr mr mw me gd ac \n"
    "30000-31000 rw-s 00030000 00:01 77                         /memfd:verbatim-pages (deleted)\n"
    "VmFlags: rd wr sh mr mw me ms sd \n";

Survey survey_of(const PageRange& range, std::string_view text = kText) {
    Survey found;
    EXPECT_TRUE(survey_text(text, range, makedev(0, 1), 77, found));
    return found;
}

TEST(MemorySurvey, parts_of_mappings_are_named_with_what_they_are) {
    const Survey found = survey_of({0x12000, 0x1a000});
    ASSERT_EQ(found.inside.size(), 3u);
    EXPECT_TRUE(found.covers({0x12000, 0x1a000}));
    const Mapped &heap = found.inside[0], &own = found.inside[1], &locked = found.inside[2];
    EXPECT_EQ(heap.range.first, 0x12000u);
    EXPECT_EQ(heap.range.end, 0x14000u);
    EXPECT_TRUE(heap.plain && !heap.ours);
    EXPECT_TRUE(heap.advice.not_forked && heap.advice.not_dumped && heap.advice.unreserved);
    EXPECT_FALSE(heap.advice.huge || heap.advice.never_huge);
    EXPECT_TRUE(own.ours && !own.plain && own.advice.huge);
    EXPECT_EQ(own.offset, 0x14000u);
    EXPECT_FALSE(locked.plain);
    EXPECT_EQ(found.mappings, 7u);
    EXPECT_FALSE(found.device_writes);
}

TEST(MemorySurvey, the_page_file_is_found_wherever_it_is_mapped) {
    const Survey found = survey_of({});
    ASSERT_EQ(found.page_files.size(), 2u);
    EXPECT_EQ(found.page_files[1].range.first, 0x30000u);
    EXPECT_TRUE(found.inside.empty());
}

TEST(MemorySurvey, only_writable_private_memory_without_a_file_is_plain) {
    for (const Mapped& part : survey_of({0x1d000, 0x28000}).inside) EXPECT_FALSE(part.plain);
    EXPECT_FALSE(survey_of({0x1a000, 0x20000}).covers({0x1a000, 0x20000}));
    EXPECT_FALSE(survey_of({0x26000, 0x29000}).covers({0x26000, 0x29000}));
}

TEST(MemorySurvey, part_of_a_mapping_of_a_file_has_its_own_offset) {
    EXPECT_EQ(survey_of({0x21000, 0x22000}).inside.at(0).offset, 0x4000u);
}

TEST(MemorySurvey, rings_of_the_kernel_are_seen) {
    EXPECT_TRUE(
        survey_of({}, "1000-2000 rw-s 00000000 00:10 5   anon_inode:[io_uring]\n").device_writes);
    EXPECT_TRUE(
        survey_of({}, "1000-2000 rw-s 00000000 00:10 5   /[aio] (deleted)\n").device_writes);
}

TEST(MemorySurvey, a_text_that_says_nothing_is_no_answer) {
    Survey found;
    EXPECT_FALSE(survey_text("", {0, 4096}, 0, 0, found));
    EXPECT_FALSE(found.covers({0, 4096}));
    // Flags may be missing.
    EXPECT_TRUE(survey_text("1000-2000 rw-p 00000000 00:00 0 \n", {0x1000, 0x2000}, 0, 0, found));
    EXPECT_FALSE(found.covers({0x1000, 0x2000}));
}

TEST(MemorySurvey, this_process_is_read) {
    Survey found;
    // Not a variable's address: sanitizers put these elsewhere.
    const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    ASSERT_TRUE(survey(pages_of(here, 1), 0, 0, found));
    EXPECT_TRUE(found.covers(pages_of(here, 1)));
    EXPECT_FALSE(found.inside.at(0).plain);  // it is the stack
    EXPECT_EQ(found.inside.at(0).protection, PROT_READ | PROT_WRITE);
}

TEST(MemorySurvey, a_file_is_found_where_stores_reach_it) {
    const int file = memfd_create("verbatim-survey-test", MFD_CLOEXEC);
    struct stat facts {};
    ASSERT_TRUE(ftruncate(file, 16384) == 0 && fstat(file, &facts) == 0);
    const auto map = [&](int protection, int kind, off_t offset) {
        void* const at = mmap(nullptr, 4096, protection, kind, file, offset);
        EXPECT_NE(at, MAP_FAILED);
        return at;
    };
    void* const stored = map(PROT_READ | PROT_WRITE, MAP_SHARED, 8192);
    void* const others[] = {map(PROT_READ, MAP_SHARED, 0),
                            map(PROT_READ | PROT_WRITE, MAP_PRIVATE, 4096)};
    std::vector<Mapped> found;
    ASSERT_TRUE(mapped_for_writing(facts.st_dev, facts.st_ino, found));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].range.first, reinterpret_cast<std::uint64_t>(stored));
    EXPECT_EQ(found[0].range.bytes(), 4096u);
    EXPECT_EQ(found[0].offset, 8192u);
    for (void* const at : {stored, others[0], others[1]}) munmap(at, 4096);
    close(file);
}

}  // namespace
}  // namespace verbatim::uverbs
