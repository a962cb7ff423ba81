// Graphs that are sent as acyclic: a cycle is an error that names a type, wherever it leads
// through; a shared object is none.
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"

namespace verbatim::objects::acyclic {

struct Link {
    Link* next = nullptr;
    std::uint64_t value = 0;
};
struct Holder {
    std::vector<Holder> elements;
    std::vector<Holder*> pointers;
    std::list<Holder*> listed;
    std::map<std::string, Holder*> named;
    std::deque<Holder*> queued;
    std::shared_ptr<Holder> shared;
    const Holder* one = nullptr;
    std::string name;
};
struct Counted {
    Counted* others = nullptr;
    int count = 0;
};
VERBATIM_DESCRIBE(Counted, others, count)
VERBATIM_COUNTED(Counted, (others, count))

namespace {

template <class T>
std::string refusal_of(const T& root) {
    Loopback<T> loopback;
    try {
        loopback.send(root, {.acyclic = true, .most_bytes = std::uint64_t{256} << 20});
        return "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_pointer) << error.what();
        return error.what();
    }
}

#define EXPECT_NAMES(type, root)                                            \
    do {                                                                    \
        const std::string told = refusal_of(root);                          \
        EXPECT_NE(told.find("leads to itself"), std::string::npos) << told; \
        EXPECT_NE(told.find(type), std::string::npos) << told;              \
    } while (false)

TEST(Acyclic, a_cycle_of_any_length_is_an_error_that_names_its_type) {
    for (const std::size_t length : {1u, 2u, 3u, 1000u, 50'000u}) {
        std::vector<std::unique_ptr<Link>> links;
        for (std::size_t i = 0; i < length; ++i) links.push_back(std::make_unique<Link>());
        for (std::size_t i = 0; i < length; ++i) links[i]->next = links[(i + 1) % length].get();
        EXPECT_NAMES("Link", *links[0]);
    }
}

TEST(Acyclic, a_cycle_behind_a_long_path_is_found) {
    std::vector<Link> links(300'000);
    for (std::size_t i = 0; i + 1 < links.size(); ++i) links[i].next = &links[i + 1];
    links.back().next = &links[links.size() - 7];
    Link first{&links[0], 0};
    EXPECT_NAMES("Link", first);
}

TEST(Acyclic, cycles_through_elements_containers_and_shared_pointers_are_found) {
    using Close = void (*)(Holder & outer, Holder & inner);
    const Close closes[] = {
        [](Holder& outer, Holder& inner) { inner.pointers = {&outer}; },
        [](Holder& outer, Holder& inner) {
            inner.pointers = {nullptr, &inner, &outer};
        },
        [](Holder& outer, Holder& inner) { inner.listed = {&outer}; },
        [](Holder& outer, Holder& inner) {
            inner.named = {{"a", nullptr}, {"b", &outer}};
        },
        [](Holder& outer, Holder& inner) {
            inner.queued = {&inner, &outer};
        },
        [](Holder& outer, Holder& inner) {
            inner.shared = std::shared_ptr<Holder>(std::shared_ptr<void>(), &outer);
        },
        [](Holder& outer, Holder&) { outer.elements[3].one = &outer.elements[1]; },
    };
    for (std::size_t i = 0; i < std::size(closes); ++i) {
        SCOPED_TRACE(i);
        Holder outer;
        outer.elements.resize(5);
        for (Holder& element : outer.elements) element.name = "a name that is not short at all";
        outer.elements[1].one = &outer.elements[3];
        closes[i](outer, outer.elements[2]);
        EXPECT_NAMES("Holder", outer);
    }
}

// Its brothers are many, and those that come first are finished before it is met.
TEST(Acyclic, a_cycle_among_many_finished_brothers_is_found) {
    Holder root;
    root.elements.resize(20'000);
    for (Holder& element : root.elements) element.name = "a name that is not short at all";
    for (const std::size_t at :
         {std::size_t{0}, root.elements.size() / 2, root.elements.size() - 1}) {
        root.elements[at].one = &root.elements[at];
        EXPECT_NAMES("Holder", root);
        root.elements[at].one = nullptr;
    }
    EXPECT_EQ(refusal_of(root), "accepted");
}

TEST(Acyclic, a_cycle_through_counted_elements_is_found) {
    std::vector<Counted> counted(3);
    Counted root{counted.data(), 3};
    counted[1] = {&counted[2], 1};
    EXPECT_EQ(refusal_of(root), "accepted");
    counted[2] = {counted.data(), 3};
    EXPECT_NAMES("Counted", root);
}

// Sharing is no cycle, however often the same path is walked.
TEST(Acyclic, shared_objects_are_sent_once_for_each_reference) {
    Link last{nullptr, 9};
    std::vector<Link> links(64);
    for (std::size_t i = 0; i < links.size(); ++i)
        links[i].next = i + 1 < links.size() ? &links[i + 1] : &last;
    std::vector<Link*> root(4'000, &links[0]);
    Loopback<std::vector<Link*>> loopback;
    const auto& got = loopback.send(root, {.acyclic = true});
    EXPECT_EQ(loopback.objects, 2 + 4'000u * 65);
    for (const Link* link : got) {
        for (int i = 0; i < 64; ++i) link = link->next;
        ASSERT_EQ(link->value, 9u);
    }
    ASSERT_NE(got[0], got[1]);
}

// Objects that lead to the same ones on many paths: sixteen levels make 65,536 paths.
TEST(Acyclic, a_lattice_of_shared_objects_is_no_cycle) {
    std::vector<Holder> levels(17);
    for (std::size_t i = 0; i + 1 < levels.size(); ++i)
        levels[i].pointers = {&levels[i + 1], &levels[i + 1]};
    EXPECT_EQ(refusal_of(levels[0]), "accepted");
}

}  // namespace
}  // namespace verbatim::objects::acyclic
