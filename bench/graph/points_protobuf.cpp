// protobuf: a message that is already built is serialized, copied and parsed; the receiver gets a
// message. protobuf_arena: the same with warm buffers and arenas. protobuf_objects: the same job as
// ours, in that fast form: from pointers to a message and back to pointers.
#include <messages.pb.h>
#include "points_subject.hpp"
#include "protobuf_wire.hpp"

namespace bench_graph {
namespace {

constexpr std::size_t kMessageBytes =
    kPoints * 20 + 64;  // per point: tag, length, two tagged doubles
constexpr std::size_t kParsedBytes = kPoints * 64;

template <class CloudType>
void fill(proto::Cloud& message, const CloudType& cloud) {
    message.mutable_points()->Reserve(static_cast<int>(cloud.points.size()));
    for (const Point* point : cloud.points) {
        proto::Point* added = message.add_points();
        added->set_x(point->x);
        added->set_y(point->y);
    }
}

using CloudWire = ProtobufWire<proto::Cloud>;

struct WarmCloudWire : CloudWire {
    WarmCloudWire() : CloudWire(kMessageBytes, kParsedBytes) {}
};

// `Wire` carries a message that is built already.
template <class Source, class Wire>
class PointsProtobufMessage : public PointsSubject<Source> {
  public:
    template <class... Args>
    explicit PointsProtobufMessage(Args... args) : PointsSubject<Source>(args...) {
        fill(message_, this->sent());
    }
    std::uint64_t bytes() const override { return wire_.bytes(); }
    void transfer() override { wire_.transfer(message_); }
    bool verify() override {
        std::vector<Point> points;
        for (const proto::Point& point : wire_.received().points())
            points.push_back({point.x(), point.y()});
        HeapCloud received;
        for (Point& point : points) received.points.push_back(&point);
        return this->equals_sent(received);
    }

  private:
    proto::Cloud message_;
    Wire wire_;
};

template <class Source>
class PointsProtobuf final : public PointsProtobufMessage<Source, PlainProtobufWire<proto::Cloud>> {
    using PointsProtobufMessage<Source, PlainProtobufWire<proto::Cloud>>::PointsProtobufMessage;
};
template <class Source>
class PointsProtobufArena final : public PointsProtobufMessage<Source, WarmCloudWire> {
    using PointsProtobufMessage<Source, WarmCloudWire>::PointsProtobufMessage;
};

template <class Source>
class PointsProtobufObjects final : public PointsSubject<Source> {
  public:
    using PointsSubject<Source>::PointsSubject;
    std::uint64_t bytes() const override { return wire_.bytes(); }

    void transfer() override {
        building_.reset();
        fill(building_.message(), this->sent());
        const proto::Cloud& arrived = wire_.transfer(building_.message());
        auto& cloud = received_.restart();
        cloud.points.reserve(static_cast<std::size_t>(arrived.points_size()));
        for (const proto::Point& point : arrived.points())
            cloud.points.push_back(received_.make({point.x(), point.y()}));
    }
    bool verify() override { return this->equals_sent(received_.cloud()); }

  private:
    WarmMessage<proto::Cloud> building_{kParsedBytes};
    CloudWire wire_{kMessageBytes, kParsedBytes};
    ReceivedPoints<Source> received_;
};

}  // namespace

void add_points_protobuf() {
    add_to_points_cases<PointsProtobuf>("protobuf");
    add_to_points_cases<PointsProtobufArena>("protobuf_arena");
    add_to_points_cases<PointsProtobufObjects>("protobuf_objects");
}

}  // namespace bench_graph
