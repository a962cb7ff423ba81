// Shared pointers stay shared, weak ones stay weak.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

const std::string kLong = "a text that is too long to lie in its string";

struct Person {
    std::string name;
    std::shared_ptr<Person> friend_of;
    std::shared_ptr<const std::string> motto;
};

TEST(SharedTypes, objects_stay_shared_without_counts) {
    Loopback<Person> loopback;
    Person root{"root", std::make_shared<Person>(), std::make_shared<const std::string>(kLong)};
    root.friend_of->name = kLong;
    root.friend_of->friend_of = root.friend_of;
    root.friend_of->motto = root.motto;
    const Person& got = loopback.send(root);
    EXPECT_EQ(got.friend_of->friend_of, got.friend_of);
    EXPECT_EQ(got.friend_of->motto, got.motto);
    EXPECT_EQ(*got.motto, kLong);
    EXPECT_EQ(got.friend_of.use_count(), 0);
    {
        const std::shared_ptr<Person> copy = got.friend_of;  // touches nothing
        EXPECT_EQ(copy->name, kLong);
    }
    EXPECT_EQ(got.friend_of->name, kLong);
    root.friend_of->friend_of.reset();
}

TEST(SharedTypes, a_shared_pointer_leads_to_a_member) {
    for (const bool member_first : {false, true}) {
        struct Root {
            std::shared_ptr<std::string> one;
            std::shared_ptr<Person> person;
            std::shared_ptr<std::string> two;
        };
        Loopback<Root> loopback;
        Root root;
        root.person = std::make_shared<Person>();
        root.person->name = "member";
        const std::shared_ptr<std::string> name(root.person, &root.person->name);
        (member_first ? root.one : root.two) = name;
        const Root& got = loopback.send(root);
        EXPECT_EQ((member_first ? got.one : got.two).get(), &got.person->name);
        EXPECT_EQ((member_first ? got.two : got.one), nullptr);
    }
}

struct Node {
    int value = 0;
    std::vector<std::shared_ptr<Node>> children;
    std::weak_ptr<Node> parent;
};

TEST(SharedTypes, weak_pointers_lead_back) {
    Loopback<std::shared_ptr<Node>> loopback;
    const auto root = std::make_shared<Node>();
    for (int i = 0; i < 3; ++i) {
        root->children.push_back(std::make_shared<Node>(Node{i, {}, root}));
    }
    const std::shared_ptr<Node>& got = loopback.send(root);
    ASSERT_EQ(got->children.size(), 3u);
    EXPECT_TRUE(got->parent.expired());
    EXPECT_GT(got.use_count(), 0);
    for (int i = 0; i < 3; ++i) {
        const auto& child = got->children[static_cast<std::size_t>(i)];
        EXPECT_EQ(child->value, i);
        EXPECT_EQ(child->parent.lock(), got);
        EXPECT_FALSE(child->parent.owner_before(got) || got.owner_before(child->parent));
        EXPECT_TRUE(child.owner_before(got) || got.owner_before(child));
    }
}

TEST(SharedTypes, counts_never_reach_zero) {
    Loopback<std::shared_ptr<Node>> loopback;
    const auto& got = loopback.send(std::make_shared<Node>(Node{5, {}, {}}));
    auto& mutable_pointer = const_cast<std::shared_ptr<Node>&>(got);
    const std::weak_ptr<Node> weak = mutable_pointer;
    { const auto copy = mutable_pointer, another = copy; }
    Node* const node = mutable_pointer.get();
    mutable_pointer.reset();
    EXPECT_FALSE(weak.expired());
    EXPECT_EQ(weak.lock().get(), node);
    EXPECT_EQ(node->value, 5);
}

struct Weak {
    std::weak_ptr<int> expired, alive, empty;
    std::shared_ptr<int> owner;
    std::weak_ptr<int> elsewhere;
};

TEST(SharedTypes, expired_pointers_arrive_expired) {
    for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{16}}) {
        const auto elsewhere = std::make_shared<int>(3);
        Weak root;
        root.expired = std::make_shared<int>(1);
        root.owner = std::make_shared<int>(2);
        root.alive = root.owner;
        root.elsewhere = elsewhere;  // which no shared pointer of the graph owns
        Loopback<Weak> loopback;
        loopback.flush_bytes = flush_bytes;
        const Weak& got = loopback.send(root);
        EXPECT_TRUE(got.expired.expired());
        EXPECT_EQ(got.expired.lock(), nullptr);
        EXPECT_TRUE(got.empty.expired());
        EXPECT_EQ(got.alive.lock(), got.owner);
        EXPECT_EQ(*got.owner, 2);
        EXPECT_EQ(*got.elsewhere.lock(), 3);
    }
}

}  // namespace

struct Session : std::enable_shared_from_this<Session> {
    std::string name;
    std::weak_ptr<Session> peer;
};
VERBATIM_DESCRIBE_DERIVED(Session, (std::enable_shared_from_this<Session>), name, peer)
struct Server : Session {
    std::vector<std::shared_ptr<Session>> sessions;
    std::unique_ptr<Session> unshared;
};
VERBATIM_DESCRIBE_DERIVED(Server, (Session), sessions, unshared)

namespace {

TEST(SharedTypes, objects_know_the_pointers_to_themselves) {
    Loopback<std::shared_ptr<Server>> loopback;
    const auto root = std::make_shared<Server>();
    root->name = kLong;
    for (int i = 0; i < 100; ++i) {
        root->sessions.push_back(std::make_shared<Session>());
        root->sessions.back()->peer = i == 0 ? std::weak_ptr<Session>(root) : root->sessions[0];
    }
    root->unshared = std::make_unique<Session>();
    const auto& got = loopback.send(root);
    EXPECT_EQ(got->name, kLong);
    EXPECT_EQ(got->shared_from_this(), std::shared_ptr<Session>(got));
    EXPECT_EQ(got->sessions[0]->peer.lock(), std::shared_ptr<Session>(got));
    for (std::size_t i = 1; i < 100; ++i) {
        ASSERT_EQ(got->sessions[i]->shared_from_this(), got->sessions[i]);
        ASSERT_EQ(got->sessions[i]->peer.lock(), got->sessions[0]);
    }
    EXPECT_THROW((void)got->unshared->shared_from_this(), std::bad_weak_ptr);
}

TEST(SharedTypes, many_shared_objects_arrive_in_fragments) {
    struct Root {
        std::vector<std::shared_ptr<Person>> persons;
        std::vector<std::weak_ptr<Person>> again;
    };
    Loopback<Root> loopback;
    loopback.flush_bytes = 4096;
    Root root;
    for (int i = 0; i < 12'000; ++i) {
        root.persons.push_back(std::make_shared<Person>());
        root.persons.back()->name = kLong + std::to_string(i);
        root.persons.back()->friend_of = root.persons[static_cast<std::size_t>(i / 2)];
    }
    for (std::size_t i = 0; i < 12'000; ++i) root.again.push_back(root.persons[i * 7 % 12'000]);
    const Root& got = loopback.send(root);
    for (std::size_t i = 0; i < 12'000; ++i) {
        ASSERT_EQ(got.persons[i]->name, root.persons[i]->name);
        ASSERT_EQ(got.persons[i]->friend_of, got.persons[i / 2]);
        ASSERT_EQ(got.again[i].lock(), got.persons[i * 7 % 12'000]);
    }
    for (const auto& person : root.persons) person->friend_of.reset();
    EXPECT_TRUE(loopback.send({}).persons.empty());
}

TEST(SharedTypes, changed_bytes_arrive_or_are_refused) {
    const auto root = std::make_shared<Node>();
    root->children.push_back(std::make_shared<Node>(Node{1, {}, root}));
    root->children.push_back(root->children[0]);
    send_with_each_byte_changed(root, 320, [](const std::shared_ptr<Node>& got) {
        if (got == nullptr) return;
        std::vector<std::shared_ptr<Node>> nodes = {got};
        for (const auto& child : got->children) {
            if (child == nullptr) continue;
            nodes.push_back(child);
            if (auto parent = child->parent.lock()) nodes.push_back(parent);
        }
        int sum = 0;
        for (const auto& node : nodes) sum += node->value & 1;
        EXPECT_GE(sum, 0);
    });
    root->children.clear();
}

}  // namespace
}  // namespace verbatim::objects
