// XRC in the engine alone, by queues that the test writes as libmlx5 does: where messages end, what
// becomes of those whose queue goes, peers that write nonsense, and queues that come and go while
// messages arrive.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <verbatim/mlx5/shared_receive_queue.hpp>
#include <verbatim/mlx5/work_request.hpp>
#include <verbatim/softnic/softnic.hpp>

#include "device.hpp"
#include "queue_pair.hpp"
#include "stall.hpp"
#include "xrc_domain.hpp"

namespace verbatim::softnic {
namespace {

using mlx5::Syndrome;

constexpr std::chrono::seconds kPatience{20};
constexpr std::uint32_t kProtectionDomain = 3;

std::shared_ptr<DeviceCore> make_device(std::size_t ring_bytes = 64 << 10) {
    return std::make_shared<DeviceCore>(Options{.parked = true, .ring_bytes = ring_bytes});
}

// A completion queue, read as a driver does. Counts how often it was announced.
struct Completions {
    Completions() : memory(256, 64, 1), queue(memory.view(), {count, this}) {}
    static void count(void* self) noexcept { ++static_cast<Completions*>(self)->announced; }

    // The next completion, if there is one.
    template <class Entry = mlx5::Cqe>
    std::optional<Entry> take() {
        const auto& view = memory.view();
        const std::byte* const at = view.buffer + (consumed % view.entries) * sizeof(Entry);
        const std::uint8_t own = __atomic_load_n(
            reinterpret_cast<const std::uint8_t*>(at) + sizeof(Entry) - 1, __ATOMIC_ACQUIRE);
        if (((own & mlx5::kOwnerMask) != 0) != mlx5::owner_phase(consumed, view.entries) ||
            mlx5::cqe_opcode(own) == mlx5::CqeOpcode::invalid)
            return std::nullopt;
        Entry entry;
        std::memcpy(&entry, at, sizeof entry);
        __atomic_store_n(view.doorbell_record, mlx5::be32(++consumed).raw(), __ATOMIC_RELEASE);
        return entry;
    }

    CompletionQueueMemory memory;
    CompletionQueue queue;
    std::atomic<int> announced{0};
    std::uint32_t consumed = 0;
};

std::size_t key_of(DeviceCore& device, std::vector<std::byte>& memory) {
    return device.keys().add({.address = reinterpret_cast<std::uint64_t>(memory.data()),
                              .bytes = memory.size(),
                              .access = Access::local_write | Access::remote_write,
                              .domain = kProtectionDomain});
}

// A shared receive queue in a domain, with receives of 64 bytes at multiples of that.
struct Queue {
    Queue(XrcDomain& domain, std::shared_ptr<DeviceCore> of, std::uint32_t index)
        : device(std::move(of)),
          memory(64 << 10),
          key(static_cast<std::uint32_t>(key_of(*device, memory))),
          entries({.entries = 63}, domain.free_number(*device)),
          list(entries.view(), kProtectionDomain),
          posts(entries.view()),
          facts{&list, &completions.queue, device.get(), index},
          joined(&domain) {
        EXPECT_TRUE(domain.add(facts));
    }
    ~Queue() { leave(); }
    void leave() {
        if (joined != nullptr) joined->remove(facts);
        joined = nullptr;
    }
    void receive(std::size_t at, std::uint32_t bytes) {
        const mlx5::Element element{reinterpret_cast<std::uint64_t>(memory.data() + at), bytes,
                                    key};
        EXPECT_EQ(posts.post({.elements = {&element, 1}}), Errc::ok);
    }
    std::uint32_t number() const { return list.number(); }

    std::shared_ptr<DeviceCore> device;
    std::vector<std::byte> memory;
    std::uint32_t key;
    Completions completions;
    SharedReceiveQueueMemory entries;
    SharedReceiveList list;
    mlx5::SharedReceiveQueue posts;
    XrcQueue facts;
    XrcDomain* joined;
};

// The events of a queue pair.
struct Events {
    EventSink sink() { return {note, this}; }
    static void note(void* self, QueuePairEvent event) noexcept {
        static_cast<Events*>(self)->seen.push_back(event);
    }
    bool has(QueuePairEvent event) const {
        return std::find(seen.begin(), seen.end(), event) != seen.end();
    }
    std::vector<QueuePairEvent> seen;
};

struct Target {
    Target(const std::shared_ptr<DeviceCore>& device, const std::shared_ptr<XrcDomain>& domain)
        : memory({.send_blocks = 1, .receive_entries = 1}, 0) {
        QueuePairParts parts;
        parts.view = memory.view();
        parts.view.receive_entries = 0;
        parts.xrc_domain = domain;
        parts.send_completions = parts.receive_completions = &domain->no_completions();
        parts.follows_verbs = true;
        parts.events = events.sink();
        pair = std::make_unique<QueuePair>(device, std::move(parts));
    }
    QueuePairMemory memory;
    Events events;
    std::unique_ptr<QueuePair> pair;
};

struct Initiator {
    explicit Initiator(std::shared_ptr<DeviceCore> of)
        : device(std::move(of)),
          data(64 << 10),
          key(static_cast<std::uint32_t>(key_of(*device, data))),
          memory({.send_blocks = 64, .receive_entries = 1}, 0) {
        QueuePairParts parts;
        parts.view = memory.view();
        parts.view.receive_entries = 0;
        parts.names_queues = true;
        parts.domain = kProtectionDomain;
        parts.send_completions = parts.receive_completions = &completions.queue;
        parts.send_index = 5;
        parts.follows_verbs = true;
        pair = std::make_unique<QueuePair>(device, std::move(parts));
    }
    void connect(QueuePair& target) {
        const QueuePairAddress there = target.address(), here = pair->address();
        target.states().initialize(), pair->states().initialize();
        target.states().receive_from({here.nonce, here.number});
        pair->states().receive_from({there.nonce, there.number});
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        auto link = device->link_to(there, deadline);
        ChannelSender ring(link->open_channel(here.number, there.number, deadline));
        pair->states().start(std::move(link), std::move(ring), nullptr);
    }
    // A send of data's first bytes; it is executed.
    void send(std::uint32_t queue, std::uint32_t bytes) {
        const auto opcode = static_cast<std::uint32_t>(mlx5::Opcode::send);
        mlx5::ControlSegment control;
        control.opmod_index_opcode = mlx5::be32(std::uint32_t{posted} << 8 | opcode);
        control.number_units = mlx5::be32(pair->view().number << 8 | 3);
        control.fence_completion_event = mlx5::kCompletionAlways;
        mlx5::XrcSegment named;
        named.shared_receive_queue = mlx5::be32(queue);
        const mlx5::DataSegment element{mlx5::be32(bytes), mlx5::be32(key),
                                        mlx5::be64(reinterpret_cast<std::uint64_t>(data.data()))};
        std::byte* const at =
            memory.view().send_buffer + std::size_t{posted % 64u} * mlx5::kBlockBytes;
        std::memcpy(at, &control, sizeof control);
        std::memcpy(at + 16, &named, sizeof named);
        std::memcpy(at + 32, &element, sizeof element);
        __atomic_store_n(memory.view().doorbell_record + mlx5::kRecordSend,
                         mlx5::be32(++posted).raw(), __ATOMIC_RELEASE);
        pair->turns().execute();
    }
    // How the next request ended; none: it succeeded.
    Syndrome outcome(QueuePair& target) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (std::chrono::steady_clock::now() < deadline) {
            target.turns().progress(), pair->turns().progress();
            if (const auto cqe = completions.take<mlx5::ErrorCqe>())
                return mlx5::cqe_opcode(cqe->op_own) == mlx5::CqeOpcode::requester
                           ? kNoSyndrome
                           : static_cast<Syndrome>(cqe->syndrome);
        }
        ADD_FAILURE() << "no completion came";
        return Syndrome::local_queue_pair;
    }

    std::shared_ptr<DeviceCore> device;
    std::vector<std::byte> data;
    std::uint32_t key;
    QueuePairMemory memory;
    Completions completions;
    std::unique_ptr<QueuePair> pair;
    std::uint16_t posted = 0;
};

struct Xrc : testing::Test {
    Xrc() { initiator.connect(*target.pair); }

    std::shared_ptr<DeviceCore> near = make_device(4096), far = make_device(4096);
    std::shared_ptr<XrcDomain> domain = std::make_shared<XrcDomain>();
    Queue one{*domain, far, 11};
    Target target{far, domain};
    Queue other{*domain, far, 12};
    Initiator initiator{near};
};

TEST_F(Xrc, messages_end_in_the_queue_they_name_and_complete_there) {
    const std::vector<Queue*> order{&one, &other, &other, &one};
    for (std::size_t i = 0; i < order.size(); ++i) order[i]->receive(64 * i, 64);
    for (std::size_t i = 0; i < order.size(); ++i) {
        initiator.data[0] = static_cast<std::byte>(i + 1);
        initiator.send(order[i]->number(), 8);
        EXPECT_EQ(initiator.outcome(*target.pair), kNoSyndrome);
        const auto cqe = order[i]->completions.take();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->shared_receive_index.native(), order[i]->facts.index);
        EXPECT_EQ(cqe->opcode_number.native() & 0xffffff, target.pair->view().number);
        EXPECT_EQ(cqe->byte_count.native(), 8u);
        EXPECT_EQ(order[i]->memory[64 * i], static_cast<std::byte>(i + 1));
        EXPECT_GE(order[i]->completions.announced, 1);
    }
    EXPECT_FALSE(one.completions.take() || other.completions.take());
}

TEST_F(Xrc, a_poll_of_the_queues_completions_drives_the_target) {
    Queue late(*domain, far, 13);
    late.receive(0, 64);
    initiator.send(late.number(), 8);
    EXPECT_FALSE(late.completions.take());
    late.completions.queue.progress();
    EXPECT_TRUE(late.completions.take());
}

TEST_F(Xrc, queues_of_one_completion_queue_drive_the_target_until_the_last_goes) {
    SharedReceiveQueueMemory entries({.entries = 3}, domain->free_number(*far));
    SharedReceiveList list(entries.view(), kProtectionDomain);
    const XrcQueue second{&list, &one.completions.queue, far.get(), 14};
    ASSERT_TRUE(domain->add(second));
    domain->remove(second);
    one.receive(0, 64);
    initiator.send(one.number(), 8);
    one.completions.queue.progress();
    EXPECT_TRUE(one.completions.take());
}

TEST_F(Xrc, a_number_is_taken_once) {
    SharedReceiveQueueMemory entries({.entries = 3}, one.number());
    SharedReceiveList list(entries.view(), kProtectionDomain);
    EXPECT_FALSE(domain->add({&list, &one.completions.queue, far.get(), 14}));
    EXPECT_EQ(domain->find(one.number()), &one.facts);
    EXPECT_EQ(domain->find(one.number() + kXrcQueues), nullptr);
}

TEST_F(Xrc, each_side_is_described_as_what_it_is) {
    EXPECT_NE(far->describe().find("transport = \"XRC_TGT\""), std::string::npos);
    EXPECT_NE(near->describe().find("transport = \"XRC_INI\""), std::string::npos);
}

TEST_F(Xrc, a_queue_of_another_domain_is_an_invalid_request) {
    XrcDomain elsewhere;
    Queue foreign(elsewhere, far, 20);
    foreign.receive(0, 64);
    initiator.send(foreign.number(), 8);
    EXPECT_EQ(initiator.outcome(*target.pair), Syndrome::remote_invalid);
    target.pair->turns().execute();
    EXPECT_EQ(target.pair->state(), QueuePairState::error);
    EXPECT_TRUE(target.events.has(QueuePairEvent::request_error));
    EXPECT_FALSE(foreign.completions.take());
}

// The sender could not know: only the target can refuse it.
TEST_F(Xrc, a_queue_that_went_before_its_message_was_received_is_an_invalid_request) {
    one.receive(0, 64);
    initiator.send(one.number(), 8);
    one.leave();
    EXPECT_EQ(initiator.outcome(*target.pair), Syndrome::remote_invalid);
    EXPECT_TRUE(target.events.has(QueuePairEvent::request_error));
    EXPECT_FALSE(one.completions.take());
}

TEST_F(Xrc, a_queue_that_goes_while_a_message_arrives_takes_it_along) {
    one.receive(0, 64 << 10);
    initiator.send(one.number(), 40000);  // many times the ring
    target.pair->turns().execute();
    EXPECT_EQ(target.pair->state(), QueuePairState::ready_to_receive);
    one.leave();
    EXPECT_EQ(initiator.outcome(*target.pair), Syndrome::remote_operation);
    EXPECT_EQ(target.pair->state(), QueuePairState::error);
    EXPECT_FALSE(one.completions.take());
    EXPECT_FALSE(other.completions.take());
}

TEST_F(Xrc, a_target_that_goes_while_a_message_arrives_flushes_its_receive) {
    one.receive(0, 64 << 10);
    initiator.send(one.number(), 40000);
    target.pair->turns().execute();
    target.pair = nullptr;
    const auto cqe = one.completions.take<mlx5::ErrorCqe>();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome, static_cast<std::uint8_t>(Syndrome::flushed));
    EXPECT_EQ(cqe->shared_receive_index.native(), one.facts.index);
}

TEST_F(Xrc, a_reset_target_begins_anew) {
    one.receive(0, 64), one.receive(64, 64);
    initiator.send(one.number(), 8);
    EXPECT_EQ(initiator.outcome(*target.pair), kNoSyndrome);
    target.pair->reset();
    initiator.pair->reset();
    std::memset(initiator.memory.view().send_buffer, 0, 64);
    __atomic_store_n(initiator.memory.view().doorbell_record + mlx5::kRecordSend, 0u,
                     __ATOMIC_RELEASE);
    initiator.posted = 0;
    Queue late(*domain, far, 15);
    initiator.connect(*target.pair);
    late.receive(0, 64);
    initiator.send(late.number(), 8);
    EXPECT_EQ(initiator.outcome(*target.pair), kNoSyndrome);
    EXPECT_TRUE(late.completions.take());
}

TEST_F(Xrc, a_record_that_names_a_queue_is_nonsense_to_other_queue_pairs) {
    Completions completions;
    QueuePairMemory memory({.send_blocks = 1, .receive_entries = 4}, 0);
    QueuePairParts parts;
    parts.view = memory.view();
    parts.send_completions = parts.receive_completions = &completions.queue;
    parts.follows_verbs = true;
    QueuePair plain(far, std::move(parts));
    plain.states().initialize();
    plain.states().receive_from({near->nonce(), 77});
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const auto link = near->link_to(plain.address(), deadline);
    ChannelSender ring(link->open_channel(77, plain.view().number, deadline));
    EXPECT_FALSE(ring.protection_domain(one.number()));
    std::size_t room = 0;
    ASSERT_NE(ring.reserve(room), nullptr);
    ring.commit({0, kQueueRecord | kFirstRecord | kLastRecord, one.number(), 0});
    plain.turns().execute();
    EXPECT_EQ(plain.state(), QueuePairState::error);
    EXPECT_EQ(ring.refused(), static_cast<std::uint64_t>(Syndrome::remote_invalid));
}

TEST_F(Xrc, a_queue_named_amid_a_message_is_nonsense) {
    Target victim(far, domain);
    victim.pair->states().initialize();
    victim.pair->states().receive_from({near->nonce(), 78});
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const auto link = near->link_to(victim.pair->address(), deadline);
    ChannelSender ring(link->open_channel(78, victim.pair->view().number, deadline));
    one.receive(0, 64);
    std::size_t room = 0;
    for (const RecordHeader& record :
         {RecordHeader{0, kQueueRecord | kFirstRecord | kLastRecord, one.number(), 0},
          RecordHeader{0, kFirstRecord, 0, 0},
          RecordHeader{0, kQueueRecord | kFirstRecord | kLastRecord, other.number(), 0}}) {
        ASSERT_NE(ring.reserve(room), nullptr);
        ring.commit(record);
    }
    victim.pair->turns().execute();
    EXPECT_EQ(victim.pair->state(), QueuePairState::error);
    // The receive that the message had is flushed where it was taken.
    EXPECT_TRUE(one.completions.take<mlx5::ErrorCqe>());
    EXPECT_FALSE(other.completions.take());
}

TEST_F(Xrc, queues_come_and_go_while_messages_arrive) {
    constexpr int kMessages = 2000;
    std::atomic<bool> over{false};
    std::thread receiving([&] {
        while (!over.load()) one.completions.queue.progress();
    });
    std::thread coming_and_going([&] {
        while (!over.load()) Queue passing(*domain, far, 16);
    });
    verbatim::test::Stall stall;
    std::uint64_t received = 0;
    for (int i = 0; i < kMessages && !stall.is_over(received); ++i) {
        one.receive(0, 64);
        initiator.send(one.number(), 8);
        std::optional<mlx5::Cqe> cqe;
        while (!(cqe = one.completions.take()) && !stall.is_over(received))
            initiator.pair->turns().progress();
        if (cqe) one.posts.retire(cqe->wqe_counter.native()), ++received;
        while (!initiator.completions.take() && !stall.is_over(received))
            initiator.pair->turns().progress();
    }
    over.store(true);
    receiving.join(), coming_and_going.join();
    EXPECT_EQ(received, std::uint64_t{kMessages});
}

}  // namespace
}  // namespace verbatim::softnic
