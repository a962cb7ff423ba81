// A placed file of 10 GiB, nearly all of it holes: opening it reads none of its objects.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <xxhash.h>

#include <verbatim/objects.hpp>

namespace verbatim::saved {
namespace {

using Numbers = std::vector<std::uint64_t>;
constexpr std::uint64_t kImageBytes = std::uint64_t{10} << 30;
constexpr std::uint64_t kImageAt = 4096;
constexpr std::size_t kPage = 4096;

// Bytes of a header (docs/saved-graphs.md, "Format").
constexpr std::size_t kFileBytesAt = 24, kImageBytesAt = 32, kLayoutBytesAt = 64, kBaseAt = 88,
                      kRootAt = 96, kHeaderSumAt = 112;

class SparseFile : public testing::Test {
  protected:
    SparseFile() {
        std::string name = "/dev/shm/verbatim-sparse-XXXXXX";
        folder_ = mkdtemp(name.data());
        path_ = folder_ / "graph";
    }
    ~SparseFile() override {
        if (file_ >= 0) close(file_);
        std::filesystem::remove_all(folder_);
    }

    // A vector whose elements, but for the first one, are a hole. False: errno says why not.
    bool make() {
        save_placed(path_, Numbers{7});
        file_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
        std::array<std::byte, kHeaderSumAt> header;
        EXPECT_EQ(pread(file_, header.data(), header.size(), 0), std::ssize(header));
        const auto field = [&](std::size_t at) {
            std::uint64_t value = 0;
            std::memcpy(&value, header.data() + at, sizeof value);
            return value;
        };
        const std::uint64_t layout_bytes = (field(kLayoutBytesAt) + 7) / 8 * 8;
        const std::uint64_t file_bytes = kImageAt + kImageBytes + layout_bytes + kImageBytes / 64;
        if (ftruncate(file_, static_cast<off_t>(file_bytes)) != 0) return false;
        const std::uint64_t end_of_vector = field(kBaseAt) + kImageBytes;
        for (const std::uint64_t at : {8u, 16u})  // its end, and that of its memory
            put(kImageAt + field(kRootAt) + at, end_of_vector);
        std::memcpy(header.data() + kFileBytesAt, &file_bytes, sizeof file_bytes);
        std::memcpy(header.data() + kImageBytesAt, &kImageBytes, sizeof kImageBytes);
        EXPECT_EQ(pwrite(file_, header.data(), header.size(), 0), std::ssize(header));
        put(kHeaderSumAt, XXH3_64bits(header.data(), header.size()));
        return true;
    }
    void put(std::uint64_t at, std::uint64_t value) const {
        EXPECT_EQ(pwrite(file_, &value, sizeof value, static_cast<off_t>(at)),
                  std::ssize(std::array<std::byte, sizeof value>{}));
    }
    // Blocks of 512 bytes that the file takes. A hole that is read takes some, too, on a tmpfs.
    std::int64_t blocks() const {
        struct stat status {};
        EXPECT_EQ(fstat(file_, &status), 0);
        return status.st_blocks;
    }
    // Pages of the mapped image that are in memory.
    static std::int64_t pages_in_memory(const Numbers& numbers) {
        const auto first = reinterpret_cast<std::uintptr_t>(numbers.data()) / kPage * kPage;
        const auto end = reinterpret_cast<std::uintptr_t>(numbers.data() + numbers.size());
        std::vector<unsigned char> pages((end - first + kPage - 1) / kPage);
        EXPECT_EQ(mincore(reinterpret_cast<void*>(first), end - first, pages.data()), 0);
        return std::count_if(pages.begin(), pages.end(),
                             [](unsigned char page) { return (page & 1) != 0; });
    }
    static std::uint64_t resident_bytes() {
        std::uint64_t all = 0, resident = 0;
        std::ifstream("/proc/self/statm") >> all >> resident;
        return resident * kPage;
    }

    template <class T>
    void expect_opened_unread() {
        const std::int64_t blocks_before = blocks();
        const std::uint64_t bytes_before = resident_bytes();
        const auto graph = map<T>(path_, {.trusted = true});
        EXPECT_LT(resident_bytes(), bytes_before + (std::uint64_t{4} << 20));
        if (graph.report().relocated)
            GTEST_SKIP() << "other memory is at the addresses of the file";
        EXPECT_EQ(blocks(), blocks_before);
        EXPECT_LE(pages_in_memory(*graph), 4) << "those that were written";
        EXPECT_EQ(graph->front(), 7u);
        EXPECT_EQ(graph->size() * sizeof(std::uint64_t),
                  kImageBytes - reinterpret_cast<std::uintptr_t>(graph->data()) % kImageAt);
        EXPECT_EQ((*graph)[graph->size() / 2], 0u) << "a hole";
        EXPECT_LT(pages_in_memory(*graph), 2'000) << "a page, or a huge one";
    }

    std::filesystem::path folder_;
    std::string path_;
    int file_ = -1;
};

TEST_F(SparseFile, of_10_gib_is_opened_without_a_look_at_its_objects) {
    if (!make()) GTEST_SKIP() << "no file of 10 GiB in " << folder_ << ": " << std::strerror(errno);
    expect_opened_unread<const Numbers>();
    if (!IsSkipped()) expect_opened_unread<Numbers>();
}

}  // namespace
}  // namespace verbatim::saved
