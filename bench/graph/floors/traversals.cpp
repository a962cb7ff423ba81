// Traversals alone, without copies or a receiver (Naos, ATC'21, Table 2). floor: depth first by
// hand, making a send list. breadth_first: the same in that order. verbatim.walk: our walk, which
// copies.
#include <verbatim/objects.hpp>

#include "../memory/warm_memory.hpp"
#include "../subject.hpp"
#include "../workloads/persons.hpp"
#include "send_list.hpp"

namespace bench_graph {
namespace {

template <class W, WalkOrder Order>
class ListingSubject final : public Subject {
  public:
    explicit ListingSubject(const W& workload)
        : workload_(workload), root_(workload_.make(source_)) {}

    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        list_.clear();
        bytes_ = Listing<Order>(visited_.view(), list_).run(*root_);
        visited_.restart(bytes_);
    }
    // The root, its array and all behind it lie side by side.
    bool verify() override { return bytes_ - image::kFirst == source_.used(); }
    std::uint64_t list_length() const override { return list_.length(); }

  private:
    W workload_;
    WarmMemory source_{workload_.bytes()};
    const typename W::Root* root_;
    Visited visited_{source_.extent()};
    SendList list_;
    std::uint64_t bytes_ = 0;
};

template <class W>
class WalkSubject final : public Subject {
  public:
    explicit WalkSubject(const W& workload)
        : workload_(workload), root_(workload_.make(*arena_)), tables_(arena_) {}

    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        tables_.staging.begin();
        tables_.staging.buffers().set_retired();
        verbatim::objects::Packer<typename W::Root> packer(tables_, *root_, {});
        done_ = packer.run();
        objects_ = packer.objects();
    }
    // The root and its array are objects as well.
    bool verify() override { return done_ && objects_ >= workload_.objects() + 2; }

  private:
    W workload_;
    std::shared_ptr<verbatim::Arena> arena_ = std::make_shared<verbatim::Arena>(
        verbatim::ArenaOptions{.name = "benchmark", .initial_bytes = std::size_t{4} << 20});
    const typename W::Root* root_;
    verbatim::objects::PackTables tables_;
    bool done_ = false;
    std::uint64_t objects_ = 0;
};

template <class W, WalkOrder Order>
void add_listing(const W& workload, const char* subject) {
    add_subject(workload.name, subject,
                [=] { return std::make_unique<ListingSubject<W, Order>>(workload); });
}

}  // namespace

void add_traversals() {
    for_each_persons([]<class W>(const W& workload) {
        add_listing<W, WalkOrder::depth_first>(workload, "floor");
        add_listing<W, WalkOrder::breadth_first>(workload, "breadth_first");
        add_subject(workload.name, "verbatim.walk",
                    [=] { return std::make_unique<WalkSubject<W>>(workload); });
    });
}

}  // namespace bench_graph
