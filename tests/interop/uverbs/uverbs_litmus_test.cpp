// What a program may poll in its memory while another process writes there by unmodified
// libibverbs: the data of one request are all there when the flag of the next one is seen. Two
// processes, by cross-memory attach, where that is forbidden, and in memory that both have mapped:
// there all of a request is there when its last word is.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "../processes/child_process.hpp"
#include "../processes/maps.hpp"
#include "place.hpp"

namespace verbatim::interop {
namespace {

constexpr std::uint64_t kRounds = 400;
constexpr std::size_t kData = 3003, kFlag = 8192;  // bytes, and where the flag is
constexpr std::size_t kFlagSource = 16384;         // at the writer
constexpr std::size_t kFlagBehind = 5 + kData;     // of one request, at the reader
static_assert(kFlagBehind % sizeof(std::uint64_t) == 0);
constexpr int kNotShared = 9;

// Nobody without rights may attach to a process that is not dumpable, not even of the same user.
void forbid_attach() {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0)
        throw std::runtime_error("setresuid");
    if (prctl(PR_SET_DUMPABLE, 0) != 0) throw std::runtime_error("PR_SET_DUMPABLE");
}

enum class Path { attach, pieces, mapping };

struct Litmus : testing::TestWithParam<Path> {
    Litmus()
        : seen(static_cast<std::atomic<std::uint64_t>*>(
              mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
        EXPECT_EQ(pipe(to_child) | pipe(to_parent), 0);
    }
    ~Litmus() override {
        for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
        munmap(seen, 4096);
    }

    // Of one side.
    static void take_path() {
        setenv("VERBATIM_SOFTNIC_SHARE", GetParam() == Path::mapping ? "1" : "0", 1);
        if (GetParam() == Path::pieces) forbid_attach();
    }

    // Looks at nothing but its memory.
    int read_rounds(bool one_request = false) {
        take_path();
        const Context context = open_device();
        Side side(context.get());
        if (one_request && !is_shared(side.memory.data() + 8192)) return kNotShared;
        tell(to_parent[1], place_of(side));
        connect(side.pair.get(), take<Place>(to_child[0]).number);
        tell(to_parent[1], 'c');
        const std::size_t flag = one_request ? kFlagBehind : kFlag;
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
            for (int looks = 1; __atomic_load_n(&side.word(flag), __ATOMIC_ACQUIRE) != round;
                 ++looks) {
                if (std::chrono::steady_clock::now() > deadline) return 2;
                if (looks % 1000 == 0) std::this_thread::yield();  // the other may need the core
            }
            const auto wanted = static_cast<std::byte>(round & 0xff);
            const auto* const data = side.memory.data() + 5;
            // From the end on: a copy begins at the beginning.
            if (!std::all_of(std::reverse_iterator(data + kData), std::reverse_iterator(data),
                             [&](std::byte one) { return one == wanted; }))
                return 3;
            seen->store(round);
        }
        take<char>(to_child[0]);
        return 0;
    }
    int write_rounds(bool one_request = false) {
        take_path();
        const Context context = open_device();
        Side side(context.get());
        const auto peer = take<Place>(to_parent[0]);
        tell(to_child[1], place_of(side));
        connect(side.pair.get(), peer.number);
        take<char>(to_parent[0]);
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            std::fill_n(side.memory.data(), kData, static_cast<std::byte>(round & 0xff));
            const auto there = reinterpret_cast<std::byte*>(peer.address);
            if (one_request) {
                std::memcpy(side.memory.data() + kData, &round, sizeof round);
                side.request(IBV_WR_RDMA_WRITE, 0, kData + sizeof round)
                    .to(there + 5, peer.key)
                    .post(side.pair.get());
            } else {
                side.word(kFlagSource) = round;
                side.request(IBV_WR_RDMA_WRITE, 0, kData)
                    .to(there + 5, peer.key)
                    .post(side.pair.get());
                side.request(IBV_WR_RDMA_WRITE, kFlagSource, 8)
                    .to(there + kFlag, peer.key)
                    .post(side.pair.get());
            }
            for (int i = 0; i < (one_request ? 1 : 2); ++i)
                if (side.poll().status != IBV_WC_SUCCESS) return 2;
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
            while (seen->load() != round) {
                if (std::chrono::steady_clock::now() > deadline) return 3;
                std::this_thread::yield();
            }
        }
        tell(to_child[1], 'e');
        return 0;
    }

    std::atomic<std::uint64_t>* seen;
    int to_child[2], to_parent[2];
};

INSTANTIATE_TEST_SUITE_P(Paths, Litmus, testing::Values(Path::attach, Path::pieces, Path::mapping),
                         [](const auto& path) {
                             return path.param == Path::attach   ? "by_attach"
                                    : path.param == Path::pieces ? "in_pieces"
                                                                 : "by_mapping";
                         });

TEST_P(Litmus, data_are_there_before_the_flag_of_the_next_request) {
    testing::internal::CaptureStderr();
    Child reader([&] { return read_rounds(); });
    Child writer([&] { return write_rounds(); });
    EXPECT_EQ(writer.wait(std::chrono::seconds(50)), 0);
    EXPECT_EQ(reader.wait(std::chrono::seconds(50)), 0);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("cross-memory attach") != std::string::npos, GetParam() == Path::pieces)
        << log;
}

TEST_P(Litmus, the_last_word_of_a_request_comes_last) {
    if (GetParam() != Path::mapping)
        GTEST_SKIP() << "nothing is promised: runs where memory is mapped";
    Child reader([&] { return read_rounds(true); });
    Child writer([&] { return write_rounds(true); });
    const int read = reader.wait(std::chrono::seconds(50));
    if (read == kNotShared)
        GTEST_SKIP() << "nothing is shared in this build: runs without sanitizers";
    EXPECT_EQ(read, 0);
    EXPECT_EQ(writer.wait(std::chrono::seconds(50)), 0);
}

}  // namespace
}  // namespace verbatim::interop
