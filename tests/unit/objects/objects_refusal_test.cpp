// What a sender and a receiver refuse: wrong pointers before anything is sent, altered images
// before anything is handed out.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "objects_image.hpp"

namespace verbatim {
namespace {

using test::Image;
using test::image_of;
using test::Scan;
using test::test_arena;

struct Linked {
    std::uint64_t value = 0;
    Linked* next = nullptr;
};

template <class T>
std::string refusal_of(const T& root) {
    try {
        Scan(test_arena()).run(root);
        return "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_pointer);
        EXPECT_EQ(error.scope(), Scope::request);
        return error.what();
    }
}

TEST(Packing, refuses_a_misaligned_pointer) {
    alignas(16) std::byte bytes[64]{};
    Linked root{1, reinterpret_cast<Linked*>(bytes + 4)};
    EXPECT_NE(refusal_of(root).find("misaligned"), std::string::npos);
}

TEST(Packing, refuses_a_pointer_to_arena_memory_that_was_never_allocated) {
    Linked root{
        1, reinterpret_cast<Linked*>(test_arena().base() + test_arena().reserved_bytes() - 4096)};
    EXPECT_NE(refusal_of(root).find("freed or never allocated"), std::string::npos);
}

TEST(Packing, refuses_an_object_that_runs_past_its_allocation) {
    auto* lonely = static_cast<std::uint64_t*>(test_arena().allocate(65536, 4096));
    struct Root {
        std::array<std::uint64_t, 65536>* big;
    };
    const Root root{reinterpret_cast<std::array<std::uint64_t, 65536>*>(lonely)};
    EXPECT_NE(refusal_of(root), "accepted");
    test_arena().deallocate(lonely, 65536, 4096);
}

TEST(Packing, refuses_one_object_reached_as_two_types) {
    struct Root {
        float* a;
        int* b;
    };
    int number = 0;
    const Root root{reinterpret_cast<float*>(&number), &number};
    EXPECT_NE(refusal_of(root).find("also reached as"), std::string::npos);
}

TEST(Packing, is_usable_after_a_refusal) {
    Scan scan(test_arena());
    Linked bad{1, reinterpret_cast<Linked*>(std::uintptr_t{3})};
    EXPECT_THROW(scan.run(bad), Error);
    Linked tail{2, nullptr}, good{1, &tail};
    scan.run(good);
    EXPECT_EQ(scan.objects(), 2u);
}

// ---- the receiver ----

struct Record {
    std::string name;
    std::vector<Record*> links;
    std::vector<std::uint32_t> numbers;
    Record* next = nullptr;
    bool flag = false;
    std::optional<bool> maybe;
};

struct RecordGraph {
    std::vector<std::unique_ptr<Record>> records;
    RecordGraph() {
        for (int i = 0; i < 12; ++i) {
            records.push_back(std::make_unique<Record>());
            records.back()->name = i % 2 ? "short" : "a name that is long enough for the heap";
            records.back()->numbers.assign(static_cast<std::size_t>(i), 7u);
            records.back()->maybe = i % 3 == 0;
        }
        for (std::size_t i = 0; i < 12; ++i) {
            records[i]->next = records[(i + 1) % 12].get();
            records[i]->links = {records[(i * 5) % 12].get(), records[(i * 7 + 1) % 12].get()};
        }
    }
};

// Everything reachable is read; under ASan a reference that leads outside is an error.
std::uint64_t read_all(const Record& root, std::size_t limit) {
    std::uint64_t sum = 0;
    std::vector<const Record*> todo{&root};
    std::set<const Record*> met;
    while (!todo.empty() && met.size() <= limit) {
        const Record* r = todo.back();
        todo.pop_back();
        if (r == nullptr || !met.insert(r).second) continue;
        for (char c : r->name) sum += static_cast<unsigned char>(c);
        for (std::uint32_t n : r->numbers) sum += n;
        sum += std::uint64_t{r->flag} + (r->maybe.value_or(false) ? 1u : 0u);
        todo.insert(todo.end(), r->links.begin(), r->links.end());
        todo.push_back(r->next);
    }
    return sum;
}

TEST(Mending, refuses_an_image_cut_short_at_any_place) {
    RecordGraph graph;
    const Image whole = image_of(*graph.records[0], 1);
    for (std::uint64_t size = 0; size < whole.size; size += 8) {
        Image image = Image::empty(size + 1);
        std::memcpy(image.bytes.get(), whole.bytes.get(), size);
        image.size = size;
        image.places = whole.places;
        image.arrays = whole.arrays;
        image.told = whole.told;
        try {
            image.mend<Record>();
            FAIL() << "accepted after " << size << " of " << whole.size << " bytes";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::corrupt_message);
        }
    }
}

TEST(Mending, refuses_trailing_bytes) {
    RecordGraph graph;
    const Image whole = image_of(*graph.records[0], 1);
    Image image = Image::empty(whole.size + 16);
    std::memcpy(image.bytes.get(), whole.bytes.get(), whole.size);
    image.places = whole.places;
    image.arrays = whole.arrays;
    image.told = whole.told;
    EXPECT_THROW(image.mend<Record>(), Error);
}

TEST(Mending, refuses_each_altered_record) {
    RecordGraph graph;
    const Image whole = image_of(*graph.records[0], 1);
    ASSERT_GT(whole.places.size(), 10u);
    for (std::size_t i = 0; i < whole.places.size(); ++i)
        for (const std::int64_t delta : {-16L, -8L, 8L, 16L, 1L << 20}) {
            Image image = whole.copy();
            image.places[i].offset += static_cast<std::uint64_t>(delta);
            EXPECT_THROW(image.mend<Record>(), Error) << i << " " << delta;
        }
}

TEST(Mending, refuses_a_bool_that_is_neither) {
    RecordGraph graph;
    Image image = image_of(*graph.records[0], 1);
    image.bytes.get()[offsetof(Record, flag)] = std::byte{2};
    EXPECT_THROW(image.mend<Record>(), Error);
}

// ---- optionals: what an empty one would hold is no object, and its bytes were never checked ----

struct Titled {
    std::string* early = nullptr;  // met before what it leads to
    std::optional<std::string> title;
    std::pair<int, std::optional<std::vector<std::string>>> lines;
    std::array<std::optional<std::string>, 3> notes;
    std::optional<std::pair<std::optional<std::string>, int>> inner;
    std::vector<std::string*> strings;
    std::vector<std::vector<std::string>*> vectors;
};

Titled full() {
    Titled root;
    root.title = "a title that is too long to be local";
    root.lines.second = {"one", "two"};
    root.notes = {"first", "second", "third, which needs memory of its own"};
    root.inner = {"within an optional pair", 5};
    return root;
}

// The flags of the optionals that a back-pointer leads into, as offsets in the root.
std::vector<std::size_t> flags_of(const Titled& root, const std::optional<std::string>& target) {
    const auto offset = [&](const auto& optional) {
        using Value = std::remove_cvref_t<decltype(*optional)>;
        return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&optional) -
                                        reinterpret_cast<const std::byte*>(&root)) +
               sizeof(Value);
    };
    if (&target == &root.inner->first) return {offset(root.inner), offset(target)};
    return {offset(target)};
}

template <class Point>
void expect_refused_when_empty(std::size_t which, Point point) {
    Titled root = full();
    std::optional<std::string>* const targets[] = {&root.title, &root.notes[0], &root.notes[2],
                                                   &root.inner->first};
    std::optional<std::string>& target = *targets[which];
    point(root, *target);
    for (const std::size_t flag : flags_of(root, target)) {
        Image image = image_of(root);
        ASSERT_NO_THROW(image.copy().mend<Titled>());
        image.bytes.get()[flag] = std::byte{0};
        EXPECT_THROW(image.mend<Titled>(), Error) << "optional " << which << ", flag " << flag;
    }
}

TEST(Mending, refuses_references_into_optionals_that_are_empty) {
    for (std::size_t which = 0; which < 4; ++which) {
        expect_refused_when_empty(which, [](Titled& root, std::string& target) {
            root.strings = {&target, &target};
        });
        expect_refused_when_empty(which,
                                  [](Titled& root, std::string& target) { root.early = &target; });
    }
    Titled root = full();
    root.vectors = {&*root.lines.second};
    Image image = image_of(root);
    ASSERT_NO_THROW(image.copy().mend<Titled>());
    const std::size_t flag = offsetof(Titled, lines) + offsetof(decltype(Titled::lines), second) +
                             sizeof(std::vector<std::string>);
    ASSERT_EQ(image.bytes.get()[flag], std::byte{1});
    image.bytes.get()[flag] = std::byte{0};
    EXPECT_THROW(image.mend<Titled>(), Error);
}

TEST(Packing, refuses_a_pointer_into_an_empty_optional) {
    Titled root = full();
    root.strings = {&*root.title};
    EXPECT_EQ(refusal_of(root), "accepted");
    root.title.reset();
    EXPECT_NE(refusal_of(root), "accepted");
    root.strings.clear();
    EXPECT_EQ(refusal_of(root), "accepted");
}

TEST(Mending, survives_any_mutation_without_leaving_the_image) {
    RecordGraph graph;
    const Image whole = image_of(*graph.records[0], 1);
    std::mt19937_64 random(42);
    int accepted = 0;
    for (int round = 0; round < 20000; ++round) {
        Image image = whole.copy();
        for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes)
            switch (random() % 4) {
                case 0:
                    image.bytes.get()[random() % image.size] = static_cast<std::byte>(random());
                    break;
                case 1: {
                    const std::uint64_t value = random() % 2 ? random() : random() % 256;
                    std::memcpy(image.bytes.get() + random() % (image.size / 8) * 8, &value, 8);
                    break;
                }
                case 2:
                    image.places[random() % image.places.size()].offset =
                        random() % (image.size + 64);
                    break;
                default:
                    image.places[random() % image.places.size()].reference = random() % 64;
            }
        try {
            read_all(*image.mend<Record>(), 1000);
            ++accepted;
        } catch (const Error& error) {
            ASSERT_EQ(error.code(), Errc::corrupt_message);
        }
    }
    // Values may change unseen (that is what the checksum is for), structure may not.
    EXPECT_GT(accepted, 0);
    EXPECT_LT(accepted, 20000);
}

}  // namespace
}  // namespace verbatim
