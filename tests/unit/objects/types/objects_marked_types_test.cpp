// Markings: members that stay behind, counted pointers, validators.
#include <any>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects::marked {

const std::string kLong = "a text that is too long to lie in its string";

struct Cached {
    std::string key;
    mutable std::mutex mutex;
    std::any cache;
    int hits = 0;
    std::vector<Cached*> others;
};
VERBATIM_DESCRIBE(Cached, key, mutex, cache, hits, others)
VERBATIM_TRANSIENT(Cached, mutex, cache, hits)

struct Derived : Cached {
    int own = 0;
    int left = 0;
};
VERBATIM_DESCRIBE_DERIVED(Derived, (Cached), own, left)
VERBATIM_TRANSIENT(Derived, left)

struct Plain {
    int kept = 0;
    int left = 0;
};
VERBATIM_DESCRIBE(Plain, kept, left)
VERBATIM_TRANSIENT(Plain, left)

class Private {
  public:
    int kept() const { return kept_; }
    int left() const { return left_; }
    void set(int kept, int left) { kept_ = kept, left_ = left; }

  private:
    int kept_ = 0, left_ = 0;
    VERBATIM_DESCRIBE_PRIVATE(Private, kept_, left_)
};
VERBATIM_TRANSIENT(Private, left_)

struct Counted {
    std::uint32_t size = 0;
    double* values = nullptr;
    std::unique_ptr<std::string[]> names;
    int name_count = 0;
    const std::byte* bytes = nullptr;
    std::size_t byte_count = 0;
    const char* characters = nullptr;
    signed char character_count = 0;
    double* last = nullptr;
};
VERBATIM_DESCRIBE(Counted, size, values, names, name_count, bytes, byte_count, characters,
                  character_count, last)
VERBATIM_COUNTED(Counted, (values, size), (names, name_count), (bytes, byte_count),
                 (characters, character_count))

struct Link {
    Link* others = nullptr;
    long count = 0;
    std::string name;
};
VERBATIM_DESCRIBE(Link, others, count, name)
VERBATIM_COUNTED(Link, (others, count))

struct Range {
    int first = 0, last = 0;
    static bool is_valid(const Range& range) { return range.first <= range.last; }
};
VERBATIM_VALIDATE(Range, Range::is_valid)

struct Sorted {
    std::vector<Range> ranges;
    Sorted* next = nullptr;
};
bool is_sorted(const Sorted& sorted) {
    if (sorted.next != nullptr && sorted.next->ranges.empty()) return false;
    return std::is_sorted(sorted.ranges.begin(), sorted.ranges.end(),
                          [](const Range& a, const Range& b) { return a.first < b.first; });
}
VERBATIM_VALIDATE(Sorted, is_sorted)

namespace {

TEST(MarkedTypes, transient_members_arrive_as_they_are_made) {
    Loopback<Cached> loopback;
    Cached root, other;
    root.key = other.key = kLong;
    root.cache = kLong;
    root.hits = 7;
    root.others = {&other, &root};
    root.mutex.lock();
    const Cached& got = loopback.send(root);
    root.mutex.unlock();
    EXPECT_EQ(got.key, kLong);
    EXPECT_FALSE(got.cache.has_value());
    EXPECT_EQ(got.hits, 0);
    EXPECT_TRUE(got.mutex.try_lock());
    got.mutex.unlock();
    EXPECT_EQ(got.others[0]->key, kLong);
    EXPECT_EQ(got.others[1], &got);
}

TEST(MarkedTypes, derived_classes_inherit_markings) {
    Loopback<Derived> loopback;
    Derived root;
    root.key = kLong;
    root.cache = 5;
    root.own = 6;
    root.left = 7;
    const Derived& got = loopback.send(root);
    EXPECT_EQ(got.key, kLong);
    EXPECT_FALSE(got.cache.has_value());
    EXPECT_EQ(got.own, 6);
    EXPECT_EQ(got.left, 0);
}

TEST(MarkedTypes, transient_members_of_many_objects_are_reset) {
    Loopback<std::vector<Plain>> loopback;
    const auto& got = loopback.send(std::vector<Plain>(100'000, {3, 4}));
    ASSERT_EQ(got.size(), 100'000u);
    for (const Plain& plain : got) {
        ASSERT_EQ(plain.kept, 3);
        ASSERT_EQ(plain.left, 0);
    }
}

TEST(MarkedTypes, private_members_can_be_transient) {
    Loopback<Private> loopback;
    Private root;
    root.set(1, 2);
    const Private& got = loopback.send(root);
    EXPECT_EQ(got.kept(), 1);
    EXPECT_EQ(got.left(), 0);
}

TEST(MarkedTypes, a_transient_member_is_none_that_pointers_lead_to) {
    struct Root {
        Cached* cached = nullptr;
        int* hits = nullptr;
    };
    Cached cached;
    const Root root{&cached, &cached.hits};
    Loopback<Root> loopback;
    try {
        loopback.send(root);
        ADD_FAILURE() << "it was sent";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_pointer);
    }
}

const char kBytes[] = "bytes";
Counted some_counted(std::vector<double>& values) {
    Counted root;
    root.size = static_cast<std::uint32_t>(values.size());
    root.values = values.data();
    root.name_count = 70;
    root.names = std::make_unique<std::string[]>(70);
    for (std::size_t i = 0; i < 70; ++i) root.names[i] = kLong + std::to_string(i);
    root.bytes = reinterpret_cast<const std::byte*>(kBytes);
    root.byte_count = 5;
    root.characters = kLong.data();
    root.character_count = 6;
    root.last = values.empty() ? nullptr : &values.back();
    return root;
}

TEST(MarkedTypes, counted_pointers_bring_their_elements) {
    for (const std::size_t size : std::initializer_list<std::size_t>{1, 70, 100'000})
        for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{64}}) {
            std::vector<double> values(size, 1.5);
            const Counted root = some_counted(values);
            Loopback<Counted> loopback;
            loopback.flush_bytes = flush_bytes;
            const Counted& got = loopback.send(root);
            ASSERT_EQ(got.size, size);
            for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(got.values[i], 1.5);
            for (std::size_t i = 0; i < 70; ++i) ASSERT_EQ(got.names[i], root.names[i]);
            EXPECT_EQ(std::memcmp(got.bytes, root.bytes, 5), 0);
            EXPECT_EQ(std::string_view(got.characters, 6), kLong.substr(0, 6));
            EXPECT_EQ(got.last, got.values + size - 1);
        }
}

TEST(MarkedTypes, counts_of_none_bring_nothing) {
    double value = 1;
    Counted root;
    root.values = &value;  // size 0
    root.names = std::make_unique<std::string[]>(1);
    root.name_count = -1;
    root.byte_count = 9;  // of null
    Loopback<Counted> loopback;
    const Counted& got = loopback.send(root);
    EXPECT_EQ(got.values, nullptr);
    EXPECT_EQ(got.names, nullptr);
    EXPECT_EQ(got.bytes, nullptr);
}

TEST(MarkedTypes, counted_objects_may_refer_to_each_other) {
    Loopback<Link> loopback;
    loopback.flush_bytes = 256;
    std::vector<Link> links(12'000);
    for (std::size_t i = 0; i < links.size(); ++i) {
        links[i].name = kLong;
        links[i].others = &links[i * 7 % 11'000];
        links[i].count = static_cast<long>(i % 50 + 1);
    }
    Link root{links.data(), static_cast<long>(links.size()), "root"};
    const Link& got = loopback.send(root);
    for (std::size_t i = 0; i < links.size(); ++i) {
        ASSERT_EQ(got.others[i].others, got.others + i * 7 % 11'000);
        ASSERT_EQ(got.others[i].name, kLong);
    }
}

// No standard layout: its offsets are looked up.
template <class Member>
std::size_t place_of(Member Counted::*member) {
    const Counted counted{};
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&(counted.*member)) -
                                    reinterpret_cast<const std::byte*>(&counted));
}

TEST(MarkedTypes, counts_that_the_graph_does_not_hold_are_refused) {
    std::vector<double> values(3, 1.5);
    for (const std::uint32_t count : {0u, 2u, 5u, 5'000u, ~0u}) {
        Loopback<Counted> loopback;
        write_at_start(loopback, place_of(&Counted::size), count);
        SCOPED_TRACE(count);
        EXPECT_CORRUPT(loopback.send(some_counted(values)), "");
    }
    for (const int count : {-1, 0, 69, 71, 1 << 30}) {
        Loopback<Counted> loopback;
        write_at_start(loopback, place_of(&Counted::name_count), count);
        SCOPED_TRACE(count);
        EXPECT_CORRUPT(loopback.send(some_counted(values)), "");
    }
}

TEST(MarkedTypes, changed_bytes_arrive_or_are_refused) {
    std::vector<double> values(3, 1.5);
    send_with_each_byte_changed(some_counted(values), 512, [](const Counted& got) {
        double sum = 0;
        if (got.values != nullptr)
            for (std::uint32_t i = 0; i < got.size; ++i) sum += got.values[i] == 1.5 ? 1 : 0;
        if (got.names != nullptr)
            for (int i = 0; i < got.name_count; ++i)
                sum += static_cast<double>(got.names[static_cast<std::size_t>(i)].size());
        EXPECT_GE(sum, 0);
    });
}

TEST(MarkedTypes, valid_objects_are_accepted) {
    Loopback<Sorted> loopback;
    Sorted second{{{1, 2}}, nullptr}, root{{{1, 2}, {3, 9}, {4, 4}}, &second};
    EXPECT_EQ(loopback.send(root).ranges[1].last, 9);
    root.next = &root;
    EXPECT_EQ(loopback.send(root).next->ranges.size(), 3u);
}

TEST(MarkedTypes, a_validator_sees_the_whole_graph) {
    Sorted second{{}, nullptr}, root{{{1, 2}}, &second};
    Loopback<Sorted> loopback;
    EXPECT_CORRUPT(loopback.send(root), "Sorted");
}

TEST(MarkedTypes, an_object_that_its_validator_refuses_is_refused) {
    Loopback<Sorted> loopback;
    EXPECT_CORRUPT(loopback.send({{{1, 2}, {9, 8}}, nullptr}), "validator");
    EXPECT_CORRUPT(loopback.send({{{3, 3}, {1, 2}}, nullptr}), "validator");
    Loopback<std::vector<Range>> ranges;
    EXPECT_EQ(ranges.send(std::vector<Range>(1'000, {1, 2})).size(), 1'000u);
    EXPECT_CORRUPT(ranges.send(std::vector<Range>(1'000, {2, 1})), "Range");
}

}  // namespace
}  // namespace verbatim::objects::marked
