// Segments as files: whole values under a writer, what killed processes leave, hostile bytes, and
// whose files are read.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "core_telemetry.hpp"
#include "softnic_process.hpp"
#include "telemetry/segment.hpp"

namespace verbatim {
namespace {

using telemetry::ConnectionCounts;
using telemetry::Header;
using telemetry::Section;
using telemetry::Segment;
using telemetry::Slot;
using test::error_code_of;
using test::SegmentDirectory;

struct OpenSegment : SegmentDirectory {
    OpenSegment() : segment(Segment::open(config().telemetry)) {}
    std::string bytes() const {
        std::ifstream file(segment->path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    std::shared_ptr<Segment> segment;
};

ConnectionCounts all_of(std::uint64_t number) {
    ConnectionCounts counts;
    counts.id = number;
    counts.messages_sent = counts.bytes_sent = counts.requests_retired = counts.reads = number;
    counts.channel_count = 1;
    counts.channels[telemetry::kMostChannels].bytes = number;
    return counts;
}

TEST(TelemetrySegment, reader_sees_whole_values_while_the_writer_writes) {
    OpenSegment open;
    ASSERT_NE(open.segment, nullptr);
    std::atomic<bool> stop{false};
    std::thread writing([&] {
        Slot slot = open.segment->take(Section::connections);
        for (std::uint64_t number = 1; !stop; ++number) slot.publish(all_of(number));
    });
    std::uint64_t last = 0, reads = 0;
    for (const Deadline limit = Deadline::after(std::chrono::seconds(30));
         reads < 300 && !limit.passed();) {
        const telemetry::Process process = telemetry::read_segment(open.segment->path());
        for (const ConnectionCounts& one : process.connections) {
            ASSERT_EQ(one.messages_sent, one.id);
            ASSERT_EQ(one.reads, one.id);
            ASSERT_EQ(one.channels[telemetry::kMostChannels].bytes, one.id);
            ASSERT_GE(one.id, last);
            last = one.id;
            ++reads;
        }
    }
    stop = true;
    writing.join();
    EXPECT_GE(reads, 300U);
}

// The second copy is filled, but its sequence was never stored.
TEST(TelemetrySegment, writer_that_died_in_a_write_leaves_the_last_counts) {
    OpenSegment open;
    Slot slot = open.segment->take(Section::connections);
    slot.publish(all_of(5));
    std::string bytes = open.bytes();
    const std::size_t copy = telemetry::plan_of(Section::connections).copy_bytes();
    const std::size_t at = telemetry::offset_of(Section::connections) + 64;
    for (std::size_t i = 0; i < copy / 2; ++i) bytes.at(at + i) = 'x';  // that of sequence 2
    const telemetry::Process process = telemetry::parse_segment(bytes);
    ASSERT_EQ(process.connections.size(), 1U);
    EXPECT_EQ(process.connections[0].reads, 5U);
}

TEST(TelemetrySegment, slots_are_bounded_and_come_back) {
    OpenSegment open;
    std::vector<Slot> slots;
    for (Slot slot = open.segment->take(Section::lanes); slot;
         slot = open.segment->take(Section::lanes)) {
        telemetry::LaneCounts counts;
        counts.id = slots.size() + 1;
        slot.publish(counts);
        slots.push_back(std::move(slot));
    }
    EXPECT_EQ(slots.size(), telemetry::plan_of(Section::lanes).slots);
    EXPECT_EQ(telemetry::read_segment(open.segment->path()).lanes.size(), slots.size());
    slots.erase(slots.begin());
    EXPECT_EQ(telemetry::read_segment(open.segment->path()).lanes.size(), slots.size());
    EXPECT_TRUE(open.segment->take(Section::lanes));
}

TEST(TelemetrySegment, ends_with_its_context_and_is_nobody_elses_to_read) {
    SegmentDirectory directory;
    {
        const Context context(directory.config());
        const auto paths = telemetry::segments(directory.path());
        ASSERT_EQ(paths.size(), 1U);
        struct stat found {};
        ASSERT_EQ(stat(paths[0].c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 0777, 0600U);
    }
    EXPECT_TRUE(telemetry::segments(directory.path()).empty());
}

TEST(TelemetrySegment, of_a_killed_process_is_read_and_removed_later) {
    SegmentDirectory directory;
    softnic::test::Child child([&](softnic::test::Wire& wire) -> int {
        const Context context(directory.config());
        wire.signal();
        wire.wait();
        std::_Exit(9);  // nothing is closed
    });
    ASSERT_TRUE(child.wire().wait());
    ASSERT_EQ(directory.read().size(), 1U);
    EXPECT_TRUE(directory.read()[0].runs);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 9);
    const auto paths = telemetry::segments(directory.path());
    ASSERT_EQ(paths.size(), 1U);
    const telemetry::Process last = telemetry::read_segment(paths[0]);
    EXPECT_FALSE(last.runs);
    EXPECT_EQ(last.lanes.size(), 1U);
    const utimbuf long_ago{1000, 1000};
    ASSERT_EQ(utime(paths[0].c_str(), &long_ago), 0);
    EXPECT_TRUE(telemetry::segments(directory.path()).empty());
    EXPECT_NE(access(paths[0].c_str(), F_OK), 0);
}

TEST(TelemetrySegment, is_complete_when_it_is_listed) {
    SegmentDirectory directory;
    std::thread maker([&] {
        for (int i = 0; i < 300; ++i) (void)Segment::open(directory.config().telemetry);
    });
    const Deadline limit = Deadline::after(std::chrono::seconds(20));
    for (int seen = 0; seen < 20 && !limit.passed();) {
        for (const std::string& path : telemetry::segments(directory.path()))
            EXPECT_NE(test::error_code_of([&] { (void)telemetry::read_segment(path), ++seen; }),
                      Errc::corrupt_message);
        if (testing::Test::HasFailure()) break;
    }
    maker.join();
}

TEST(TelemetrySegment, of_a_process_that_was_killed_while_it_made_it_is_not_listed) {
    SegmentDirectory directory;
    const std::string path = directory.path() + "/12-ab-0.new";
    std::ofstream(path).close();
    EXPECT_TRUE(telemetry::segments(directory.path()).empty());
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
    const utimbuf long_ago{1000, 1000};
    ASSERT_EQ(utime(path.c_str(), &long_ago), 0);
    EXPECT_TRUE(telemetry::segments(directory.path()).empty());
    EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(TelemetrySegment, is_not_removed_by_a_forked_child) {
    SegmentDirectory directory;
    auto context = std::make_unique<Context>(directory.config());
    softnic::test::Child child([&](softnic::test::Wire&) -> int {
        context.reset();
        return 0;
    });
    EXPECT_EQ(child.reap(), 0);
    EXPECT_EQ(directory.read().size(), 1U);
}

TEST(TelemetrySegment, bytes_that_contradict_the_format_are_refused) {
    OpenSegment open;
    const std::string good = open.bytes();
    EXPECT_EQ(telemetry::parse_segment(good).pid, static_cast<std::uint64_t>(getpid()));
    const auto code_of = [](const std::string& bytes) {
        return error_code_of([&] { (void)telemetry::parse_segment(bytes); });
    };
    EXPECT_EQ(code_of(""), Errc::corrupt_message);
    EXPECT_EQ(code_of(good.substr(0, sizeof(Header) - 1)), Errc::corrupt_message);
    std::string other = good;
    other[0] ^= 1;
    EXPECT_EQ(code_of(other), Errc::corrupt_message);
    other = good;
    other[offsetof(Header, version)] ^= 1;
    EXPECT_EQ(code_of(other), Errc::version_mismatch);
    other = good;
    for (std::size_t i = 0; i < sizeof(Header::used); ++i)
        other[offsetof(Header, used) + i] = '\xff';
    EXPECT_EQ(code_of(other), Errc::ok);
    EXPECT_EQ(code_of(good.substr(0, 5000)), Errc::ok);  // cut off: what is left
}

TEST(TelemetrySegment, texts_and_numbers_of_strangers_are_bounded) {
    OpenSegment open;
    Slot slot = open.segment->take(Section::connections);
    ConnectionCounts counts = all_of(1);
    counts.channel_count = ~std::uint64_t{0};
    counts.peer.fill('\x1b');
    slot.publish(counts);
    const telemetry::Process process = telemetry::read_segment(open.segment->path());
    ASSERT_EQ(process.connections.size(), 1U);
    EXPECT_EQ(process.connections[0].channel_count, counts.channels.size());
    EXPECT_EQ(telemetry::text_of(process.connections[0].peer),
              std::string(counts.peer.size() - 1, '?'));
}

TEST(TelemetrySegment, directories_that_others_may_write_are_refused) {
    SegmentDirectory directory;
    ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);
    EXPECT_EQ(error_code_of([&] { (void)telemetry::segments(directory.path()); }),
              Errc::permission_denied);
    const Context context(directory.config());  // goes on without
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

// What `open` says in the log.
template <class Open>
std::string log_of(Open open) {
    testing::internal::CaptureStderr();
    open();
    return testing::internal::GetCapturedStderr();
}

TEST(TelemetrySegment, a_directory_that_was_chosen_and_cannot_be_used_is_warned_of) {
    SegmentDirectory directory;
    ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);
    const std::string chosen =
        log_of([&] { EXPECT_EQ(Segment::open(directory.config().telemetry), nullptr); });
    EXPECT_NE(chosen.find("warning: no telemetry: " + directory.path()), std::string::npos)
        << chosen;
    // The default one lies in this.
    const std::filesystem::path inside = directory.path() + "/verbatim";
    std::filesystem::create_directory(inside);
    std::filesystem::permissions(inside, std::filesystem::perms::all);
    const char* const before = getenv("XDG_RUNTIME_DIR");
    const std::string restored = before == nullptr ? "" : before;
    setenv("XDG_RUNTIME_DIR", directory.path().c_str(), 1);
    const std::string by_default = log_of([] { EXPECT_EQ(Segment::open({}), nullptr); });
    before == nullptr ? unsetenv("XDG_RUNTIME_DIR")
                      : setenv("XDG_RUNTIME_DIR", restored.c_str(), 1);
    EXPECT_EQ(by_default.find("warning"), std::string::npos) << by_default;
}

TEST(TelemetrySegment, links_and_files_of_other_users_are_refused) {
    OpenSegment open;
    const std::string link = open.path() + "/1-2-3";
    std::filesystem::create_symlink(open.segment->path(), link);
    EXPECT_EQ(error_code_of([&] { (void)telemetry::read_segment(link); }), Errc::permission_denied);
    if (geteuid() != 0) GTEST_SKIP() << "needs root for a file of another user";
    ASSERT_EQ(chown(open.segment->path().c_str(), 65534, 65534), 0);
    EXPECT_EQ(error_code_of([&] { (void)telemetry::read_segment(open.segment->path()); }),
              Errc::permission_denied);
}

TEST(TelemetrySegment, of_no_directory_lists_nothing) {
    EXPECT_TRUE(telemetry::segments("/nonexistent/verbatim").empty());
}

TEST(TelemetryHistogram, bucket_bounds_are_an_eighth_off_at_most) {
    using telemetry::Histogram;
    for (std::uint64_t ns = 0; ns < std::uint64_t{1} << 36; ns += 1 + ns / 7) {
        const std::size_t bucket = Histogram::bucket_of(ns);
        EXPECT_GT(Histogram::end_of(bucket), ns);
        EXPECT_LE(Histogram::end_of(bucket), ns + ns / 8 + 1);
        EXPECT_TRUE(bucket == 0 || Histogram::end_of(bucket - 1) <= ns);
    }
    EXPECT_EQ(Histogram::bucket_of(~std::uint64_t{0}), Histogram::kBuckets - 1);
    Histogram histogram;
    EXPECT_EQ(histogram.quantile(0.5), 0U);
    for (std::uint64_t ns = 1; ns <= 1000; ++ns) histogram.record(ns);
    EXPECT_EQ(histogram.count(), 1000U);
    EXPECT_NEAR(static_cast<double>(histogram.quantile(0.5)), 500, 64);
    EXPECT_NEAR(static_cast<double>(histogram.quantile(1)), 1000, 128);
}

}  // namespace
}  // namespace verbatim
