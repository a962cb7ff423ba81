// Small graphs and float arrays, one way. floor of small_N: the general floor's work and two 8-byte
// messages. floor of floats_N: one memcpy and one message of 64 bytes. floor of graph_10: one
// message of the same bytes. message_8: a message of 8 bytes, for comparison.
#include "latencies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../floors/general.hpp"
#include "../workloads/sequences.hpp"

namespace bench_graph {

namespace {

constexpr std::uint8_t kChannel = 1;
const verbatim::Deadline kNever = verbatim::Deadline::never();

void answer_messages(Channel& channel) {
    verbatim::bench::pin_to(kReceiverCore);
    const auto context = make_context(0, 0);
    const auto connection = accept_one(*context, channel);
    while (true) try {
            const verbatim::Message message = connection->receive_message(kNever);
            connection->send_message(kChannel, message.payload(), {}, kNever);
        } catch (const verbatim::Error&) {
            return;  // the peer is done, or finds out that this side is
        }
}

template <class W>
void add_verbatim(const W& workload) {
    const char* const names[]{"verbatim.arena", "verbatim.heap", "verbatim.leased"};
    add_subject(
        workload.name, names[static_cast<int>(workload.place)],
        [=] { return std::make_unique<GraphLatency<W>>(workload); }, Measure::one_way);
}

void add_messages(const std::string& name, const std::string& subject, std::size_t bytes) {
    add_subject(
        name, subject, [=] { return std::make_unique<MessageLatency>(bytes); }, Measure::one_way);
}

template <class W, template <class> class Work>
void add_floor(const W& workload, std::size_t message_bytes, unsigned rounds) {
    add_subject(
        workload.name, "floor",
        [=] {
            return std::make_unique<WorkAndMessages>(std::make_unique<Work<W>>(workload),
                                                     message_bytes, rounds);
        },
        Measure::one_way);
}

void add_small(std::size_t count) {
    const Points in_arena{{fmt::format("small_{}", count)}, Order::allocation, count};
    Points on_heap = in_arena;
    on_heap.place = Place::heap;
    add_verbatim(in_arena);
    add_verbatim(on_heap);
    add_floor<Points, GeneralFloor>(in_arena, 8, 2);
    add_messages(in_arena.name, "message_8", 8);
}

}  // namespace

Messages::Messages(std::size_t bytes) : there_(bytes), back_(bytes), receiver_(answer_messages) {}

void Messages::there_and_back() {
    std::fill(there_.begin(), there_.end(),
              static_cast<std::byte>(~std::to_integer<int>(there_[0])));
    connection_->send_message(kChannel, there_, {}, kNever);
    const verbatim::Message message = connection_->receive_message(kNever);
    const std::size_t bytes = std::min(message.payload().size(), back_.size());
    std::copy_n(message.payload().begin(), bytes, back_.begin());
}

void add_latencies() {
    for (const std::size_t count : {1u, 4u, 16u, 64u, 256u, 1024u}) add_small(count);
    // The root, its array and eight points.
    const Points ten{{"graph_10"}, Order::allocation, 8};
    add_verbatim(ten);
    add_messages(ten.name, "floor", sizeof(Cloud) + 8 * (sizeof(Point*) + sizeof(Point)));
    for (unsigned power = 6; power <= 22; power += 4) {
        const Floats floats{{fmt::format("floats_2^{}", power)}, std::size_t{1} << power};
        add_verbatim(floats);
        for (const Place place : {Place::heap, Place::leased}) {
            Floats elsewhere = floats;
            elsewhere.place = place;
            add_verbatim(elsewhere);
        }
        add_floor<Floats, ImageCopy>(floats, 64, 1);
    }
}

}  // namespace bench_graph
