// The list cases: 10^6 nodes, in the arena, on the heap, and in the arena in random order.
// verbatim.*: sent as it is. floor: by hand, for a list alone: one pass that copies nodes side by
// side, one copy to the receiver's buffer, one pass that links them there. values: what serializers
// do (zpp_bits and others): the numbers in a row, and new nodes for them at the receiver.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "subject.hpp"
#include "verbatim_pair.hpp"
#include "wire.hpp"

namespace bench_graph {
namespace {

constexpr std::size_t kLinks = 1'000'000;

struct Link {
    std::uint64_t value = 0;
    Link* next = nullptr;
};
constexpr std::size_t kImageBytes = kLinks * sizeof(Link);

enum class Place { arena, heap, shuffled };

// Links nodes in the order of the vector, or a random one; the first of the list.
Link* link(std::vector<Link*>& nodes, Place place) {
    if (place == Place::shuffled) std::shuffle(nodes.begin(), nodes.end(), std::mt19937_64(2026));
    for (std::size_t i = 0; i < nodes.size(); ++i)
        *nodes[i] = {i, i + 1 < nodes.size() ? nodes[i + 1] : nullptr};
    return nodes.front();
}

bool is_whole(const Link* node) {
    std::uint64_t expected = 0;
    for (; node != nullptr; node = node->next)
        if (node->value != expected++) return false;
    return expected == kLinks;
}

class ListSubject : public Subject {
  public:
    std::uint64_t objects() const override { return kLinks; }
    bool verify() override { return is_whole(received_head()); }

  protected:
    virtual const Link* received_head() const = 0;
    const Link& sent(std::pmr::memory_resource& arena, Place place) {
        nodes_.resize(kLinks);
        for (Link*& node : nodes_)
            node = place == Place::heap ? new Link
                                        : ::new (arena.allocate(sizeof(Link), alignof(Link))) Link;
        return *link(nodes_, place);
    }
    void free_heap() {
        for (const Link* node : nodes_) delete node;
    }

  private:
    std::vector<Link*> nodes_;
};

class ListVerbatim final : public ListSubject {
  public:
    explicit ListVerbatim(Place place) : place_(place), head_(sent(pair_.arena(), place)) {}
    ~ListVerbatim() override {
        if (place_ == Place::heap) free_heap();
    }
    std::uint64_t bytes() const override { return pair_.bytes(); }
    void transfer() override {
        received_.reset();
        received_.emplace(pair_.transfer(head_));
    }

  private:
    const Link* received_head() const override { return received_->get(); }
    Place place_;
    VerbatimPair pair_{kImageBytes};
    const Link& head_;
    std::optional<verbatim::Received<Link>> received_;
};

// Floor and values: both walk and rebuild, and differ in what they write.
class ListByHand : public ListSubject {
  public:
    explicit ListByHand(Place place) : place_(place), head_(sent(memory_, place)) {}
    ~ListByHand() override {
        if (place_ == Place::heap) free_heap();
    }

  protected:
    const Link& head() const { return head_; }
    const Wire& wire() const { return wire_; }

  private:
    Place place_;
    WarmMemory memory_{kImageBytes};
    const Link& head_;
    Wire wire_{kImageBytes};
};

class ListFloor final : public ListByHand {
  public:
    using ListByHand::ListByHand;
    std::uint64_t bytes() const override { return kImageBytes; }
    void transfer() override {
        auto* to = reinterpret_cast<Link*>(wire().send_buffer());
        for (const Link* node = &head(); node != nullptr; node = node->next) *to++ = *node;
        const std::byte* bytes = wire().carry(kImageBytes);
        received_ = reinterpret_cast<Link*>(const_cast<std::byte*>(bytes));
        for (Link* node = received_; node->next != nullptr; ++node) node->next = node + 1;
    }

  private:
    const Link* received_head() const override { return received_; }
    Link* received_ = nullptr;
};

class ListValues final : public ListByHand {
  public:
    using ListByHand::ListByHand;
    std::uint64_t bytes() const override { return kLinks * sizeof(std::uint64_t); }
    void transfer() override {
        received_memory_.reset();
        std::byte* to = wire().send_buffer();
        for (const Link* node = &head(); node != nullptr; node = node->next) {
            std::memcpy(to, &node->value, sizeof node->value);
            to += sizeof node->value;
        }
        rebuild(wire().carry(bytes()));
    }

  private:
    void rebuild(const std::byte* from) {
        Link** last = &received_;
        for (std::size_t i = 0; i < kLinks; ++i, from += sizeof(std::uint64_t)) {
            auto* node = ::new (received_memory_.allocate(sizeof(Link), alignof(Link))) Link;
            std::memcpy(&node->value, from, sizeof node->value);
            *last = node;
            last = &node->next;
        }
    }
    const Link* received_head() const override { return received_; }
    WarmMemory received_memory_{kImageBytes};
    Link* received_ = nullptr;
};

}  // namespace

void add_lists() {
    for (const auto& [name, place] :
         {std::pair("list_10^6", Place::arena), std::pair("list_10^6_heap", Place::heap),
          std::pair("list_10^6_shuffled", Place::shuffled)}) {
        add_subject(name, place == Place::heap ? "verbatim.heap" : "verbatim.arena",
                    [place = place] { return std::make_unique<ListVerbatim>(place); });
        add_subject(name, "floor", [place = place] { return std::make_unique<ListFloor>(place); });
        add_subject(name, "values",
                    [place = place] { return std::make_unique<ListValues>(place); });
    }
}

}  // namespace bench_graph
