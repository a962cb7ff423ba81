// What a connection's peer may say of graphs, as sender and as receiver: any messages in any order.
// The link ends or goes on; it crashes at nothing, and keeps no more than its bounds.
#include <cstring>
#include <thread>

#include "fuzz_target.hpp"
#include "link/object_link.hpp"
#include "objects_hand_made.hpp"
#include "objects_image.hpp"
#include "objects_pair.hpp"
#include "shapes/objects_shapes.hpp"

using namespace verbatim;
namespace wire = objects::wire;

namespace {

struct Node {
    std::uint32_t value;
    bool flag;
    std::string name;
    std::vector<Node*> edges;
    Node* next;
};

// An open graph: the peer says of which class each object is.
struct Drawing {
    std::vector<std::unique_ptr<shapes::Shape>> shapes;
    shapes::Shape* favourite;
};
std::uint64_t told_shapes = 0;  // of all that was received

Config fuzz_config() {
    Config config = test::small_config();
    for (ArenaOptions* arena : {&config.arena, &config.receive_arena})
        arena->max_bytes = std::size_t{8} << 20;
    config.objects.max_graph_bytes = std::size_t{1} << 20;
    config.objects.window_budget = std::size_t{4} << 20;
    config.telemetry.enabled = false;
    return config;
}

struct Contexts {
    Context sending{fuzz_config()}, receiving{fuzz_config()};
    Listener listener = receiving.listen("127.0.0.1:0");
};

void receive_one(Connection& to) {
    if (objects::next_root(to, 0) != objects::root_type<Drawing>().layout.fingerprint)
        return (void)try_receive<Node>(to);
    const auto drawing = try_receive<Drawing>(to);
    if (!drawing) return;
    for (const auto& shape : (*drawing)->shapes)
        if (shape != nullptr) told_shapes += shape->tell().size() != 0;
    if (const shapes::Shape* const shape = (*drawing)->favourite)
        told_shapes += shape->tell().size() != 0;
}

// Reads all messages of an input: kind, length, payload.
void say_all(fuzz::Input& input, Connection& from, Connection& to) {
    for (int i = 0; i < 64 && input.left() >= 3; ++i) {
        const auto kind = static_cast<std::uint8_t>(input.number(1) % 16);
        const auto payload = input.take(input.number(2) % 2048);
        (void)LayerChannel::try_send(from, wire::kChannel, payload, {}, kind);
        receive_one(to);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    static Contexts contexts;
    fuzz::Input input(data, bytes);
    std::optional<Connection> to;
    std::thread accepting([&] { to.emplace(contexts.listener.accept()); });
    Connection from =
        contexts.sending.connect("127.0.0.1:" + std::to_string(contexts.listener.port()));
    accepting.join();
    const Node node{1, true, "a name of more than fifteen characters", {}, nullptr};
    try {
        SendOperation<Node> sending(*to, node);  // so that answers may be to something
        say_all(input, from, *to);
        for (int i = 0; i < 100; ++i) receive_one(*to);
    } catch (const Error& error) {
        fuzz::require(error.code() == Errc::protocol_error ||
                      scope_of(error.code()) == Scope::request);
    }
    fuzz::require(LayerAccess::shared_state<objects::Budget>(*to)->used() <= std::size_t{4} << 20);
    fuzz::require(objects::object_link(*to)->incoming().arrivals().waiting() <= wire::kMaxWaiting);
    return 0;
}

namespace {

using Bytes = std::vector<std::byte>;

void add_message(Bytes& seed, std::uint8_t kind, std::span<const std::byte> head,
                 std::span<const std::byte> body) {
    const std::size_t size = head.size() + body.size();
    seed.push_back(static_cast<std::byte>(kind));
    seed.push_back(static_cast<std::byte>(size >> 8));
    seed.push_back(static_cast<std::byte>(size));
    seed.insert(seed.end(), head.begin(), head.end());
    seed.insert(seed.end(), body.begin(), body.end());
}

template <class T>
void add_class(Bytes& seed, std::uint32_t number) {
    const std::string name = objects::type_info<T>().spelled();
    const wire::Class head{test::HandMadeSender::fingerprint_of<T>(), number,
                           static_cast<std::uint16_t>(name.size()), 0};
    add_message(seed, wire::kClass, wire::bytes_of(head), std::as_bytes(std::span(name)));
}

// Classes that the graph behind them uses.
Bytes drawing_seed() {
    Drawing drawing{};
    drawing.shapes.push_back(std::make_unique<shapes::Circle>(4));
    drawing.shapes.push_back(std::make_unique<shapes::Circle>(5));
    drawing.favourite = drawing.shapes[0].get();
    const test::Image image = test::image_of(drawing);
    const wire::Eager head{1,
                           test::HandMadeSender::fingerprint_of<Drawing>(),
                           static_cast<std::uint32_t>(image.size),
                           static_cast<std::uint32_t>(image.told.steps),
                           static_cast<std::uint32_t>(image.told.references),
                           static_cast<std::uint32_t>(image.places.size()),
                           static_cast<std::uint32_t>(image.arrays.size()),
                           0,
                           0};
    Bytes body;
    const auto append = [&body](std::span<const std::byte> bytes) {
        body.insert(body.end(), bytes.begin(), bytes.end());
    };
    append(std::as_bytes(std::span(image.places)));
    append(std::as_bytes(std::span(image.arrays)));
    append({image.bytes.get(), image.size});
    Bytes seed;
    add_class<shapes::Circle>(seed, 1);
    add_message(seed, wire::kEager, wire::bytes_of(head), body);
    // A seed that is refused would look for nothing behind the refusal.
    const std::uint64_t before = told_shapes;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(seed.data()), seed.size());
    fuzz::require(told_shapes == before + 3);
    return seed;
}

}  // namespace

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<Bytes> seeds{drawing_seed()};
    Bytes seed;
    const auto add = [&](std::uint8_t kind, std::span<const std::byte> head,
                         std::span<const std::byte> body = {}) {
        add_message(seed, kind, head, body);
    };
    const auto end = [&] { seeds.push_back(std::exchange(seed, {})); };
    const std::uint64_t type = test::HandMadeSender::fingerprint_of<Node>();
    const std::vector<std::byte> image(sizeof(Node));
    wire::Eager eager = test::HandMadeSender::eager_of<Node>(1);
    eager.steps = 1;
    add(wire::kEager, wire::bytes_of(eager), image);
    end();
    add(wire::kBegin, wire::bytes_of(wire::Begin{1, type, 0, 0, 0}));
    add(wire::kNeed, wire::bytes_of(wire::Need{1, 1}));
    wire::Fragment fragment{};
    fragment.id = 1;
    fragment.cursor = sizeof(Node);
    fragment.steps = fragment.references = fragment.bindings = 1;
    fragment.flags = wire::kLast;
    add(wire::kFragment, wire::bytes_of(fragment), wire::bytes_of(wire::Binding{0, 0, 0, 1}));
    end();
    add(wire::kBegin, wire::bytes_of(wire::Begin{1, type, 0, 0, 0}));
    add(wire::kNeed, wire::bytes_of(wire::Need{1, 2}));
    add(wire::kRestart, wire::bytes_of(wire::GraphId{1}));
    add(wire::kCancel, wire::bytes_of(wire::GraphId{1}));
    add(wire::kReturn, wire::bytes_of(wire::Return{0, 0, 0, 0}));
    end();
    const wire::Lend lend{0, 1, 1, 1};
    add(wire::kLend, wire::bytes_of(lend),
        wire::bytes_of(RemoteExtent{4096, wire::kSlotBytes, 7, 0}));
    add(wire::kReclaim, wire::bytes_of(wire::WindowId{0, 0}));
    end();
    add(wire::kLayout, wire::bytes_of(wire::LayoutPart{type, 16, 0}), std::span(image).first(16));
    add(wire::kClass, wire::bytes_of(wire::Class{type, 1, 12, 4}), std::span(image).first(16));
    add(wire::kFree, wire::bytes_of(wire::SlotRange{0, 0, 1, 0}));
    add(wire::kRefusal, wire::bytes_of(wire::Refusal{1, 9, 0}));
    end();
    return seeds;
}
