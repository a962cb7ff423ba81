// protobuf: a message that is already built is serialized, copied and parsed; the receiver gets a
// message. protobuf_arena: the same with warm buffers and arenas. protobuf_objects: the same job as
// ours, in that fast form: from objects to a message and back to objects.
#include "peer_cases.hpp"
#include "peer_subject.hpp"
#include "protobuf_messages.hpp"
#include "protobuf_wire.hpp"

namespace bench_graph {
namespace {

template <class Root, class Wire>
class MessageCodec {
  public:
    template <class W>
    MessageCodec(const W& workload, const Root& sent)
        : wire_(2 * workload.bytes(), 4 * workload.bytes()) {
        fill(message_, sent);
    }
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const Root&, GraphMemory&) { wire_.transfer(message_); }
    const Root& received(GraphMemory& memory) {
        memory.reset();
        return build_root<Root>(wire_.received(), memory);
    }

  private:
    typename MessageOf<Root>::type message_;
    Wire wire_;
};

template <class Root>
using PlainCodec = MessageCodec<Root, PlainProtobufWire<typename MessageOf<Root>::type>>;
template <class Root>
using ArenaCodec = MessageCodec<Root, ProtobufWire<typename MessageOf<Root>::type>>;

template <class Root>
class ObjectsCodec {
  public:
    template <class W>
    ObjectsCodec(const W& workload, const Root&)
        : building_(4 * workload.bytes()), wire_(2 * workload.bytes(), 4 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const Root& sent, GraphMemory& memory) {
        building_.reset();
        fill(building_.message(), sent);
        received_ = &build_root<Root>(wire_.transfer(building_.message()), memory);
    }
    const Root& received(GraphMemory&) { return *received_; }

  private:
    WarmMessage<typename MessageOf<Root>::type> building_;
    ProtobufWire<typename MessageOf<Root>::type> wire_;
    const Root* received_ = nullptr;
};

}  // namespace

void add_protobuf() {
    for_each_peer_case([](const auto& workload) {
        add_peer<PlainCodec>(workload, "protobuf");
        add_peer<ArenaCodec>(workload, "protobuf_arena");
        add_peer<ObjectsCodec>(workload, "protobuf_objects");
    });
    for_each_cold([]<class W>(const W& workload) {
        if constexpr (!std::is_same_v<W, Meshes<Mesh>>)
            add_peer<ObjectsCodec>(workload, "protobuf_objects", Measure::cold);
    });
}

}  // namespace bench_graph
