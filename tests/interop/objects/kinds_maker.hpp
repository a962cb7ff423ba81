// Makers of random graphs: the same seed makes equal graphs in every process, wherever their memory
// is from.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <random>
#include <string>
#include <vector>

#include "kinds.hpp"

namespace verbatim::kinds {

class Dice {
  public:
    explicit Dice(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15) { random_.discard(2); }
    std::size_t below(std::size_t end) { return random_() % end; }
    bool one_in(std::size_t count) { return below(count) == 0; }
    int number() { return static_cast<int>(below(2001)) - 1000; }
    std::string text();
    std::u16string wide() { return std::u16string(below(30), u'w'); }
    Leaf leaf() { return {static_cast<double>(number()) / 4, number(), one_in(2)}; }
    Values values();
    template <class C, class F>
    void fill(C& container, F make) {
        if (one_in(3))
            for (std::size_t i = below(5); i > 0; --i) container.insert(container.end(), make());
    }
    template <class T>
    T& of(const std::vector<T*>& pool) {
        return *pool[below(pool.size())];
    }

  private:
    std::minstd_rand random_;
};

// Owns all that its network leads to.
class NetworkMaker {
  public:
    // `left_behind`: the value of members that no receiver gets.
    NetworkMaker(std::uint64_t seed, std::pmr::memory_resource& memory, int left_behind = 7);
    ~NetworkMaker();
    NetworkMaker(const NetworkMaker&) = delete;
    NetworkMaker& operator=(const NetworkMaker&) = delete;
    const Network& root() const { return network_; }

  private:
    Node empty_node() { return {.pmr = empty_pmr()}; }
    Pmr empty_pmr();
    std::shared_ptr<Node> new_node();
    void make_nodes(std::size_t most);
    void fill_lists(Node& node);
    void fill_maps(Node& node);
    void fill_owners(Node& node);
    void fill_texts(Node& node);
    void fill_links(Node& node);
    void fill_table(Node& node);
    void pool_leaves(Node& node);
    const Leaf* some_leaf();
    Node* some_node() { return dice_.one_in(4) || all_.empty() ? nullptr : &dice_.of(all_); }

    Dice dice_;
    std::pmr::memory_resource& memory_;
    const int left_behind_;
    Network network_;
    std::vector<std::shared_ptr<Node>> nodes_;
    std::vector<Node*> all_, inner_;
    std::vector<std::unique_ptr<Couple>> couples_;
    std::vector<const Leaf*> leaves_;
    std::vector<std::unique_ptr<Leaf>> single_;
    std::vector<const std::string*> texts_;
};

class HouseholdMaker {
  public:
    HouseholdMaker(std::uint64_t seed, std::pmr::memory_resource& memory);
    ~HouseholdMaker();
    HouseholdMaker(const HouseholdMaker&) = delete;
    HouseholdMaker& operator=(const HouseholdMaker&) = delete;
    const Household& root() const { return household_; }

  private:
    Household household_;
    std::vector<std::shared_ptr<Person>> all_;
};

class BranchMaker {
  public:
    BranchMaker(std::uint64_t seed, std::pmr::memory_resource& memory);
    const Branch& root() const { return root_; }

  private:
    Branch make(unsigned depth);

    Dice dice_;
    std::pmr::memory_resource& memory_;
    Branch root_;
};

}  // namespace verbatim::kinds
