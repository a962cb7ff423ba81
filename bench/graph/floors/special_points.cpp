// floor_special of points and lists: written by hand for exactly this graph. Object images and
// offsets in one buffer, one copy to the receiver's buffer, where only the pointers are fixed. A
// list's nodes are copied side by side, and linked there. values: what serializers do (zpp_bits and
// others): the numbers of a list in a row, and new nodes for them at the receiver.
#include <cstring>
#include <optional>

#include "../memory/wire.hpp"
#include "../workloads/all.hpp"
#include "special_subject.hpp"

namespace bench_graph {
namespace {

class PointsFloor final : public SpecialFloor<Points> {
  public:
    using SpecialFloor::SpecialFloor;
    std::uint64_t bytes() const override { return count() * (sizeof(Point) + sizeof(Point*)); }
    void transfer() override {
        write_image(wire_.send_buffer());
        received_ = const_cast<std::byte*>(wire_.carry(bytes()));
        auto* words = reinterpret_cast<std::uintptr_t*>(elements(received_));
        const auto base = reinterpret_cast<std::uintptr_t>(received_);
        for (std::size_t n = 0; n < count(); ++n) words[n] += base;
    }

  private:
    std::size_t count() const { return workload().count; }
    // The message: all points, then the vector's elements.
    Point** elements(std::byte* image) const {
        return reinterpret_cast<Point**>(image + count() * sizeof(Point));
    }
    void write_image(std::byte* image) const {
        auto* points = reinterpret_cast<Point*>(image);
        auto* offsets = reinterpret_cast<std::uint64_t*>(elements(image));
        std::uint64_t offset = 0;
        for (const Point* point : sent().points) {
            *points++ = *point;
            *offsets++ = offset;
            offset += sizeof(Point);
        }
    }
    const Cloud& received() override {
        Point** const first = elements(received_);
        cloud_.emplace(Cloud{{first, first + count()}});
        return *cloud_;
    }

    Wire wire_{workload().bytes()};
    std::byte* received_ = nullptr;
    std::optional<Cloud> cloud_;
};

class ListFloor final : public SpecialFloor<List> {
  public:
    using SpecialFloor::SpecialFloor;
    std::uint64_t bytes() const override { return workload().count * sizeof(Link); }
    void transfer() override {
        auto* to = reinterpret_cast<Link*>(wire_.send_buffer());
        for (const Link* node = &sent(); node != nullptr; node = node->next) *to++ = *node;
        received_ = reinterpret_cast<Link*>(const_cast<std::byte*>(wire_.carry(bytes())));
        for (Link* node = received_; node->next != nullptr; ++node) node->next = node + 1;
    }

  private:
    const Link& received() override { return *received_; }
    Wire wire_{workload().bytes()};
    Link* received_ = nullptr;
};

class ListValues final : public SpecialFloor<List> {
  public:
    using SpecialFloor::SpecialFloor;
    std::uint64_t bytes() const override { return workload().count * sizeof(std::uint64_t); }
    void transfer() override {
        memory_.reset();
        std::byte* to = wire_.send_buffer();
        for (const Link* node = &sent(); node != nullptr; node = node->next) {
            std::memcpy(to, &node->value, sizeof node->value);
            to += sizeof node->value;
        }
        rebuild(wire_.carry(bytes()));
    }

  private:
    void rebuild(const std::byte* from) {
        Link** last = &received_;
        for (std::size_t i = 0; i < workload().count; ++i, from += sizeof(std::uint64_t)) {
            auto* node = make_in(memory_, Link{});
            std::memcpy(&node->value, from, sizeof node->value);
            *last = node;
            last = &node->next;
        }
    }
    const Link& received() override { return *received_; }
    Wire wire_{workload().bytes()};
    WarmMemory memory_{workload().bytes()};
    Link* received_ = nullptr;
};

}  // namespace

void add_special_floors() {
    for_each_sequence([]<class W>(const W& workload) {
        if constexpr (std::is_same_v<W, Points>)
            add_subject(workload.name, "floor_special",
                        [=] { return std::make_unique<PointsFloor>(workload); });
    });
    for_each_linked([]<class W>(const W& workload) {
        if constexpr (std::is_same_v<W, List>) {
            add_subject(workload.name, "floor_special",
                        [=] { return std::make_unique<ListFloor>(workload); });
            add_subject(workload.name, "values",
                        [=] { return std::make_unique<ListValues>(workload); });
        }
    });
}

}  // namespace bench_graph
