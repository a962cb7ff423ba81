// What a connection's peer may say of graphs, as sender and as receiver: any messages in any order.
// The link ends or goes on; it crashes at nothing, and keeps no more than its bounds.
#include <algorithm>
#include <cstring>
#include <memory_resource>
#include <string>
#include <string_view>
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
    shapes::Named* named;
};
// A composed message.
struct Shelf {
    std::pmr::string name;
    std::pmr::vector<std::uint64_t> numbers;
    Shelf* other = nullptr;
};

// Of all that was received, and of the last that was not.
std::uint64_t told_shapes = 0, told_shelves = 0;
std::string last_refusal;
volatile std::uint64_t sink;

}  // namespace

VERBATIM_COMPOSED(Shelf);

namespace {

Config fuzz_config() {
    Config config = test::small_config();
    for (ArenaOptions* arena : {&config.arena, &config.receive_arena})
        arena->max_bytes = std::size_t{8} << 20;
    config.objects.max_graph_bytes = std::size_t{1} << 20;
    config.objects.window_budget = std::size_t{4} << 20;
    config.telemetry.enabled = false;
    return config;
}

constexpr std::size_t kMostPayload = 2048;

struct Contexts {
    Context sending{fuzz_config()}, receiving{fuzz_config()};
    Listener listener = receiving.listen("127.0.0.1:0");
    std::byte* source =
        static_cast<std::byte*>(sending.arena().allocate(kMostPayload, objects::kEagerAlignment));
};

void receive_shelf(Connection& to) {
    const auto shelf = try_receive<Shelf>(to);
    if (!shelf) return;
    std::uint64_t sum = (*shelf)->name.size();
    for (const std::uint64_t number : (*shelf)->numbers) sum += number;
    if ((*shelf)->other != nullptr) sum += (*shelf)->other->numbers.size();
    sink = sum;
    ++told_shelves;
}
void receive_one(Connection& to) {
    const auto root = objects::next_root(to, 0);
    if (root == objects::root_type<Shelf>().layout.fingerprint) return receive_shelf(to);
    if (root != objects::root_type<Drawing>().layout.fingerprint)
        return (void)try_receive<Node>(to);
    const auto drawing = try_receive<Drawing>(to);
    if (!drawing) return;
    for (const auto& shape : (*drawing)->shapes)
        if (shape != nullptr) told_shapes += shape->tell().size() != 0;
    if (const shapes::Shape* const shape = (*drawing)->favourite)
        told_shapes += shape->tell().size() != 0;
    if (const shapes::Named* const named = (*drawing)->named)
        told_shapes += named->name().size() != 0;
}

// In the place of a kind: the payload is written to the start of what was lent.
constexpr std::uint8_t kWrite = 0x80;

void write(Connection& from, Connection& to, std::span<const std::byte> bytes, std::byte* source) {
    std::vector<RemoteExtent> lent;
    for (int i = 0; i < 50 && lent.empty(); ++i) {
        receive_one(to);
        lent = test::HandMadeSender(from).lent();
    }
    if (lent.empty() || bytes.empty()) return;
    std::memcpy(source, bytes.data(), bytes.size());
    std::size_t written = 0;
    (void)from.try_write(source, bytes.size(), lent[0].address, lent[0].remote_key, written);
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(10));
         from.try_flush() == Errc::would_block && !deadline.passed();)
        (void)(from.progress() == Errc::ok && to.progress() == Errc::ok);
}

// Reads all messages of an input: kind, length, payload.
void say_all(fuzz::Input& input, Connection& from, Connection& to, std::byte* source) {
    for (int i = 0; i < 64 && input.left() >= 3; ++i) {
        const auto kind = static_cast<std::uint8_t>(input.number(1));
        const auto payload = input.take(input.number(2) % kMostPayload);
        if (kind == kWrite)
            write(from, to, payload, source);
        else
            (void)LayerChannel::try_send(from, wire::kChannel, payload, {}, kind % 16);
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
        say_all(input, from, *to, contexts.source);
        for (int i = 0; i < 100; ++i) receive_one(*to);
    } catch (const Error& error) {
        fuzz::require(error.code() == Errc::protocol_error ||
                      scope_of(error.code()) == Scope::request);
        last_refusal = error.what();
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
void add_class(Bytes& seed, std::uint32_t number, std::uint64_t fingerprint,
               std::string_view file = {}) {
    std::string text = objects::type_info<T>().spelled();
    const wire::Class head{fingerprint, number, static_cast<std::uint16_t>(text.size()),
                           static_cast<std::uint16_t>(file.size())};
    text += file;
    add_message(seed, wire::kClass, wire::bytes_of(head), std::as_bytes(std::span(text)));
}
template <class T>
void add_class(Bytes& seed, std::uint32_t number, std::string_view file = {}) {
    add_class<T>(seed, number, test::HandMadeSender::fingerprint_of<T>(), file);
}

// A seed that is refused would look for nothing behind the refusal.
void run_seed(const Bytes& seed) {
    last_refusal.clear();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(seed.data()), seed.size());
}
void expect_received(const Bytes& seed, std::uint64_t& count, std::uint64_t more) {
    const std::uint64_t before = count;
    run_seed(seed);
    fuzz::require(count == before + more);
}
// Some do look for what a refusal says.
void expect_refused(const Bytes& seed, std::string_view text) {
    run_seed(seed);
    fuzz::require(last_refusal.find(text) != std::string::npos);
}

// ---- open graphs ----

void add_drawing(Bytes& seed, const Drawing& drawing) {
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
    add_message(seed, wire::kEager, wire::bytes_of(head), body);
}

// Classes that the graph behind them uses, by name, and by name and file.
Bytes circles_seed(std::string_view file) {
    Drawing drawing{};
    drawing.shapes.push_back(std::make_unique<shapes::Circle>(4));
    drawing.shapes.push_back(std::make_unique<shapes::Circle>(5));
    drawing.favourite = drawing.shapes[0].get();
    Bytes seed;
    add_class<shapes::Circle>(seed, 1, file);
    add_drawing(seed, drawing);
    expect_received(seed, told_shapes, 3);
    return seed;
}
// A class that a pointer to its second base leads to, which lies behind the first.
Bytes badge_seed() {
    shapes::Badge badge;
    badge.text = "a text that is too long to lie in its string";
    Drawing drawing{};
    drawing.named = &badge;
    Bytes seed;
    add_class<shapes::Badge>(seed, 1);
    add_drawing(seed, drawing);
    expect_received(seed, told_shapes, 1);
    return seed;
}
// The peer's class has a member of another name, as the layout before it tells.
Bytes other_layout_seed() {
    std::string text = objects::layout_of(objects::type_info<shapes::Circle>()).text;
    text.replace(text.find("radius"), 6, "extent");
    const std::uint64_t fingerprint = test::HandMadeSender::fingerprint_of<shapes::Circle>() + 1;
    Drawing drawing{};
    drawing.shapes.push_back(std::make_unique<shapes::Circle>(4));
    Bytes seed;
    const wire::LayoutPart part{fingerprint, static_cast<std::uint32_t>(text.size()), 0};
    add_message(seed, wire::kLayout, wire::bytes_of(part), std::as_bytes(std::span(text)));
    add_class<shapes::Circle>(seed, 1, fingerprint, "circle.hpp");
    add_drawing(seed, drawing);
    expect_refused(seed, "extent");
    return seed;
}

// ---- composed messages ----

Bytes bytes_of(const objects::Composition<Shelf>& composition, std::uint64_t most) {
    objects::ComposedTables tables;
    const auto bytes = composition.finish(tables);
    fuzz::require(bytes.has_value());
    const objects::ComposedMemory memory = bytes->memory;
    return {memory.bytes, memory.bytes + std::min(memory.used, most)};
}
std::uint64_t shelf_type() { return objects::root_type<Shelf>().layout.fingerprint; }

Bytes eager_shelf_seed() {
    objects::Composition<Shelf> composition(std::uint64_t{1} << 20);
    Shelf& shelf = composition.root();
    shelf.name = "a name of more than fifteen characters";
    shelf.numbers = {1, 2, 3};
    shelf.other = composition.make<Shelf>();
    shelf.other->other = &shelf;
    const Bytes image = bytes_of(composition, kMostPayload);
    wire::Eager head = test::HandMadeSender::eager_of<Shelf>(1);
    head.image_bytes = static_cast<std::uint32_t>(image.size());
    head.flags = wire::kComposed;
    Bytes seed;
    add_message(seed, wire::kEager, wire::bytes_of(head), image);
    expect_received(seed, told_shelves, 1);
    return seed;
}

// Begun, with two slots lent and the start of its bytes written.
Bytes begun_shelf(std::span<const std::byte> image) {
    Bytes seed;
    add_message(seed, wire::kBegin,
                wire::bytes_of(wire::Begin{1, shelf_type(), 0, wire::kComposed, 0}), {});
    add_message(seed, wire::kNeed, wire::bytes_of(wire::Need{1, 2, 0}), {});
    add_message(seed, kWrite, image, {});
    return seed;
}
void add_end(Bytes& seed, std::uint64_t cursor, std::span<const wire::Binding> bindings) {
    wire::Fragment fragment{};
    fragment.id = 1;
    fragment.cursor = cursor;
    fragment.bindings = static_cast<std::uint32_t>(bindings.size());
    fragment.flags = wire::kLast;
    add_message(seed, wire::kFragment, wire::bytes_of(fragment), std::as_bytes(bindings));
}

// One of two segments: as it must be, in pieces, and without bytes. Its numbers are what the
// receiver's memory has.
std::vector<Bytes> streamed_shelf_seeds() {
    objects::Composition<Shelf> composition(std::uint64_t{1} << 20);
    composition.root().other = composition.make<Shelf>();
    composition.root().numbers.resize(40'000);
    objects::ComposedTables tables;
    const auto whole = composition.finish(tables);
    fuzz::require(whole.has_value() && whole->memory.used > wire::kSlotBytes);
    const Bytes start = bytes_of(composition, 512);
    const wire::Binding in_order[] = {{0, 0, 0, 1}, {1, 0, 1, 1}};
    const wire::Binding in_pieces[] = {{0, 0, 1, 1}, {1, 0, 0, 1}};
    std::vector<Bytes> seeds(3, begun_shelf(start));
    add_end(seeds[0], whole->memory.used, in_order);
    expect_received(seeds[0], told_shelves, 1);
    add_end(seeds[1], whole->memory.used, in_pieces);
    expect_refused(seeds[1], "lies in pieces");
    add_end(seeds[2], 0, {});
    expect_refused(seeds[2], "has no bytes");
    return seeds;
}

}  // namespace

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<Bytes> seeds = streamed_shelf_seeds();
    for (const Bytes& more : {eager_shelf_seed(), circles_seed({}), circles_seed("circle.hpp"),
                              badge_seed(), other_layout_seed()})
        seeds.push_back(more);
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
