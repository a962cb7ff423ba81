// cereal: writes what the pointers point at and makes separate objects of it again. cereal refuses
// raw pointers, so that these few lines are what its user has to add.
#include "cereal_wire.hpp"
#include "points_subject.hpp"

namespace bench_graph {

template <class Archive>
void serialize(Archive& archive, Point& point) {
    archive(point.x, point.y);
}

namespace {

template <class CloudType>
struct Outgoing {
    const CloudType& cloud;

    template <class Archive>
    void save(Archive& archive) const {
        archive(cereal::make_size_tag(cloud.points.size()));
        for (const Point* point : cloud.points) archive(*point);
    }
};

template <class Source>
struct Incoming {
    ReceivedPoints<Source>& received;

    template <class Archive>
    void load(Archive& archive) {
        std::size_t count = 0;
        archive(cereal::make_size_tag(count));
        auto& cloud = received.restart();
        cloud.points.reserve(count);
        for (std::size_t n = 0; n < count; ++n) {
            Point* point = received.make({});
            archive(*point);
            cloud.points.push_back(point);
        }
    }
};

template <class Source>
class PointsCereal final : public PointsSubject<Source> {
  public:
    using PointsSubject<Source>::PointsSubject;
    std::uint64_t bytes() const override { return wire_.bytes(); }
    void transfer() override {
        Incoming<Source> incoming{received_};
        wire_.transfer(Outgoing<std::decay_t<decltype(this->sent())>>{this->sent()}, incoming);
    }
    bool verify() override { return this->equals_sent(received_.cloud()); }

  private:
    CerealWire wire_{kPoints * sizeof(Point) + 64};
    ReceivedPoints<Source> received_;
};

}  // namespace

void add_points_cereal() { add_to_points_cases<PointsCereal>("cereal"); }

}  // namespace bench_graph
