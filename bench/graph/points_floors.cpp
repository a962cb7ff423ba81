// floor: what one would write by hand for exactly this graph: object images and pointers as offsets
// in one buffer, one copy to the receiver's buffer, where only the pointers are fixed. memcpy: the
// copy alone.
#include <cstring>

#include "points_subject.hpp"

namespace bench_graph {
namespace {

// The message: all points, then the vector's elements.
constexpr std::size_t kImageBytes = kPoints * (sizeof(Point) + sizeof(Point*));

template <class Source>
class PointsFloor final : public PointsSubject<Source> {
  public:
    using PointsSubject<Source>::PointsSubject;
    std::uint64_t bytes() const override { return kImageBytes; }

    void transfer() override {
        write_image(send_.data());
        std::memcpy(receive_.data(), send_.data(), kImageBytes);
        fix_pointers(receive_.data());
    }

    bool verify() override {
        Point* const* first = elements(receive_.data());
        return this->equals_sent(HeapCloud{std::vector<Point*>(first, first + kPoints)});
    }

  private:
    static Point** elements(std::byte* image) {
        return reinterpret_cast<Point**>(image + kPoints * sizeof(Point));
    }

    void write_image(std::byte* image) const {
        auto* points = reinterpret_cast<Point*>(image);
        auto* offsets = reinterpret_cast<std::uint64_t*>(elements(image));
        std::uint64_t offset = 0;
        for (const Point* point : this->sent().points) {
            *points++ = *point;
            *offsets++ = offset;
            offset += sizeof(Point);
        }
    }

    static void fix_pointers(std::byte* image) {
        auto* words = reinterpret_cast<std::uintptr_t*>(elements(image));
        const auto base = reinterpret_cast<std::uintptr_t>(image);
        for (std::size_t n = 0; n < kPoints; ++n) words[n] += base;
    }

    WarmBlock send_{kImageBytes};
    WarmBlock receive_{kImageBytes};
};

template <class Source>
class PointsMemcpy final : public PointsSubject<Source> {
  public:
    using PointsSubject<Source>::PointsSubject;
    std::uint64_t bytes() const override { return kImageBytes; }
    void transfer() override { std::memcpy(receive_.data(), send_.data(), kImageBytes); }
    bool verify() override { return std::memcmp(receive_.data(), send_.data(), kImageBytes) == 0; }

  private:
    WarmBlock send_{kImageBytes};
    WarmBlock receive_{kImageBytes};
};

}  // namespace

void add_points_floors() {
    add_to_points_cases<PointsFloor>("floor");
    add_to_points_cases<PointsMemcpy>("memcpy");
}

}  // namespace bench_graph
