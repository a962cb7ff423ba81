// Pointers to parts of single objects, such as an index of the elements of a list: once one was
// checked, the next to the same part of an object of that type costs a look at one mark.
#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

struct Entry {
    std::string key, value;
};
struct Cache {
    std::unordered_map<std::string, Entry*> early;
    std::list<Entry> order;
    std::unordered_map<std::string, Entry*> late;
};

TEST(PartPointers, an_index_leads_to_the_elements_of_its_list) {
    Cache root;
    std::mt19937 random(20261127);
    for (int i = 0; i < 2000; ++i) {
        Entry& entry = root.order.emplace_front();
        entry = {"key " + std::to_string(i), std::string(random() % 60, 'v')};
        (random() % 2 == 0 ? root.early : root.late)[entry.key] = &entry;
    }
    for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{512}}) {
        Loopback<Cache> loopback;
        loopback.flush_bytes = flush_bytes;
        const Cache& got = loopback.send(root);
        ASSERT_EQ(got.order.size(), root.order.size());
        ASSERT_EQ(got.early.size() + got.late.size(), root.order.size());
        for (const Entry& entry : got.order) {
            const bool is_early = got.early.contains(entry.key);
            ASSERT_EQ((is_early ? got.early : got.late).at(entry.key), &entry);
        }
        EXPECT_EQ(loopback.restarts, 0u);
    }
}

struct Number {
    std::uint64_t value = 0, more = 0;
};
// A number lies in different objects at different places.
struct Plain {
    std::uint64_t before = 0;
    Number number;
};
struct Maybe {
    std::optional<Number> number;
};
struct Mixed {
    std::vector<Plain*> plain;
    std::list<Number> listed;
    std::vector<Number> elements;
    std::vector<std::unique_ptr<Maybe>> maybe;
    std::vector<Number*> numbers;
};

class Numbers {
  public:
    Numbers() {
        root.elements.resize(100);
        for (std::uint64_t i = 0; i < 100; ++i) {
            plain_.push_back(std::make_unique<Plain>());
            root.plain.push_back(plain_.back().get());
            root.maybe.push_back(std::make_unique<Maybe>());
            root.maybe.back()->number.emplace();
            root.listed.emplace_back();
            add(plain_[i]->number), add(*root.maybe[i]->number);
            add(root.listed.back()), add(root.elements[i]);
        }
    }
    static constexpr std::uint64_t kFirst = 0x1122334455660000;

    Mixed root;

  private:
    void add(Number& number) {
        number.value = kFirst + root.numbers.size();
        root.numbers.push_back(&number);
    }
    std::vector<std::unique_ptr<Plain>> plain_;
};

TEST(PartPointers, parts_of_objects_of_several_types_are_met_in_turn) {
    Numbers numbers;
    for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{64}})
        for (int order = 0; order < 3; ++order) {
            Loopback<Mixed> loopback;
            loopback.flush_bytes = flush_bytes;
            const Mixed& got = loopback.send(numbers.root);
            ASSERT_EQ(got.numbers.size(), numbers.root.numbers.size());
            for (std::size_t i = 0; i < got.numbers.size(); ++i)
                ASSERT_EQ(got.numbers[i]->value, numbers.root.numbers[i]->value);
            for (const Plain* plain : got.plain)
                ASSERT_EQ(got.numbers[plain->number.value - Numbers::kFirst], &plain->number);
            std::shuffle(numbers.root.numbers.begin(), numbers.root.numbers.end(),
                         std::mt19937(static_cast<unsigned>(order)));
            for (std::size_t i = 0; i < got.numbers.size(); ++i)
                numbers.root.numbers[i]->value = Numbers::kFirst + i;
        }
}

// The bytes of each optional say whether it holds one: no other optional says it for them.
TEST(PartPointers, a_pointer_into_an_empty_optional_is_refused_after_others_were_checked) {
    struct Root {
        std::vector<std::unique_ptr<Maybe>> maybe;
        std::vector<Number*> numbers;
    };
    Root root;
    for (std::uint64_t i = 0; i < 20; ++i) {
        root.maybe.push_back(std::make_unique<Maybe>());
        root.numbers.push_back(&root.maybe.back()->number.emplace(Number{Numbers::kFirst + i, i}));
    }
    Loopback<Root> loopback;
    const Root& got = loopback.send(root);
    for (std::size_t i = 0; i < 20; ++i) ASSERT_EQ(got.numbers[i], &*got.maybe[i]->number);
    loopback.tamper = [](std::uint64_t, std::byte* bytes, std::uint64_t count) {
        for (std::uint64_t at = 0; at + sizeof(Maybe) <= count; at += alignof(Maybe)) {
            std::uint64_t value = 0;
            std::memcpy(&value, bytes + at, sizeof value);
            if (value == Numbers::kFirst + 19) bytes[at + sizeof(Number)] = std::byte{0};
        }
    };
    EXPECT_CORRUPT(loopback.send(root), "leads to no object of its type");
}

}  // namespace
}  // namespace verbatim::objects
