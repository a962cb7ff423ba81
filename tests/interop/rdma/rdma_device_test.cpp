// The control path for real devices, run: through unmodified libibverbs and libmlx5 on the software
// NIC's device file. Nothing executes these queues; where a device would answer, the test does.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/receive_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/rdma/rdma.hpp>
#include <verbatim/uverbs/uverbs.hpp>

namespace verbatim {
namespace {

struct Opened : testing::Test {
    Opened() { EXPECT_NE(uverbs::sysfs_root(), nullptr); }
    static std::unique_ptr<Device> open_parked() {
        uverbs::park_new_devices(true);
        return rdma::open_device();
    }

    std::unique_ptr<QueuePairHandle> make_pair() {
        QueuePairOptions options;
        options.send_completions = options.receive_completions = completions.get();
        options.send_blocks = 64;
        options.receive_entries = 16;
        return device->create_queue_pair(options);
    }

    std::unique_ptr<Device> device = open_parked();
    std::unique_ptr<CompletionQueueHandle> completions = device->create_completion_queue(64);
};

TEST_F(Opened, device_is_found_by_what_it_can_do_or_by_name) {
    EXPECT_EQ(device->info().name, "mlx5_0");
    EXPECT_GE(device->info().max_message_bytes, std::uint64_t{1} << 30);
    rdma::Options other;
    other.name = "mlx5_7";
    try {
        rdma::open_device(other);
        FAIL() << "there is no such device";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::no_device);
        EXPECT_NE(std::string(error.what()).find("mlx5_0"), std::string::npos) << error.what();
    }
}

TEST_F(Opened, a_gid_that_does_not_exist_is_refused) {
    rdma::Options options;
    options.gid_index = 77;
    try {
        rdma::open_device(options);
        FAIL() << "there is no such GID";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        EXPECT_NE(std::string(error.what()).find("no GID 77"), std::string::npos) << error.what();
    }
}

TEST_F(Opened, queue_pairs_go_through_their_states) {
    const auto one = make_pair(), other = make_pair();
    EXPECT_NE(one->view().number, other->view().number);
    EXPECT_EQ(one->state(), QueuePairState::reset);
    one->connect(other->address(), 1000);
    other->connect(one->address(), 1000);
    EXPECT_EQ(one->state(), QueuePairState::ready);
    one->fail();
    EXPECT_EQ(one->state(), QueuePairState::error);
    const std::uint64_t before = *device->invalidation_epoch();
    one->reset();
    EXPECT_EQ(one->state(), QueuePairState::reset);
    EXPECT_GT(*device->invalidation_epoch(), before);
    one->connect(other->address(), 1000);
    EXPECT_EQ(one->state(), QueuePairState::ready);
}

TEST_F(Opened, an_address_of_another_kind_of_device_is_refused) {
    const auto pair = make_pair();
    QueuePairAddress softnic;
    softnic.kind = 1;
    try {
        pair->connect(softnic, 1000);
        FAIL() << "it is no RDMA device";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::unsupported);
    }
}

TEST_F(Opened, views_are_what_was_asked_for_and_what_the_device_path_needs) {
    const auto pair = make_pair();
    const mlx5::QueuePairView& view = pair->view();
    EXPECT_GE(view.send_blocks, 64u);
    EXPECT_GE(view.receive_entries, 16u);
    EXPECT_EQ(view.blueflame_bytes, 256u);
    EXPECT_EQ(view.doorbell_hook.call, nullptr);
    EXPECT_EQ(completions->view().progress_hook.call, nullptr);
    EXPECT_EQ(completions->view().entry_bytes, 64u);
    EXPECT_NO_THROW(mlx5::SendQueue{view});
    EXPECT_NO_THROW(mlx5::ReceiveQueue{view});
}

TEST_F(Opened, each_queue_pair_has_a_doorbell_register_of_its_own) {
    std::vector<std::unique_ptr<QueuePairHandle>> pairs;
    for (int i = 0; i < 4; ++i) {
        pairs.push_back(make_pair());
        for (int j = 0; j < i; ++j)
            EXPECT_NE(pairs[static_cast<std::size_t>(j)]->view().doorbell_register,
                      pairs.back()->view().doorbell_register);
    }
}

// Each gets one as long as there are any.
TEST_F(Opened, queue_pairs_beyond_the_registers_share_some_and_ring_by_words) {
    constexpr std::size_t kPatience = 5000;
    std::vector<std::unique_ptr<QueuePairHandle>> pairs;
    const auto shares = [](const auto& pair) { return pair->view().blueflame_bytes == 0; };
    do pairs.push_back(make_pair());
    while (!shares(pairs.back()) && pairs.size() < kPatience);
    ASSERT_TRUE(shares(pairs.back()));
    EXPECT_GT(pairs.size(), 4u);
    const mlx5::QueuePairView& view = pairs.back()->view();
    mlx5::SendQueue queue(view);
    for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_EQ(queue.post(mlx5::WorkRequest{}), Errc::ok);  // no-ops
        std::uint64_t rung = 0, posted = 0;
        std::memcpy(&rung, const_cast<const std::byte*>(view.doorbell_register), sizeof rung);
        std::memcpy(&posted, view.send_buffer + i * mlx5::kBlockBytes, sizeof posted);
        EXPECT_EQ(rung, posted) << "always in the same place";
    }
    // Registers come back.
    pairs.erase(pairs.begin());
    EXPECT_FALSE(shares(make_pair()));
}

TEST_F(Opened, regions_have_keys_and_their_release_invalidates_what_names_them) {
    alignas(4096) static std::array<std::byte, 8192> memory;
    auto region = device->register_memory(memory.data(), memory.size(),
                                          Access::local_write | Access::remote_write, {});
    EXPECT_NE(region->local_key(), 0u);
    const auto pair = make_pair();
    mlx5::SendQueue queue(pair->view(), device->invalidation_epoch());
    const mlx5::Element element{reinterpret_cast<std::uint64_t>(memory.data()), 64,
                                region->local_key()};
    mlx5::WorkRequest request;
    request.opcode = mlx5::Opcode::write;
    request.elements = std::span(&element, 1);
    const MemoryRegion* named = region.get();
    mlx5::Prepared<mlx5::Opcode::write, mlx5::Elements<1>> prepared(queue, request,
                                                                    std::span(&named, 1));
    EXPECT_EQ(prepared.post(1, 0x7000, mlx5::kUnchanged), Errc::ok);
    region.reset();
    EXPECT_EQ(prepared.post(2, 0x7000, mlx5::kUnchanged), Errc::invalid_prepared);
}

// What libmlx5 made is where our queues write, and where they read what a device writes.
TEST_F(Opened, posts_reach_ring_record_and_register_and_completions_are_found) {
    const auto pair = make_pair();
    const mlx5::QueuePairView view = pair->view();
    const mlx5::CompletionQueueView& entries = completions->view();
    mlx5::SendQueue queue(view);
    mlx5::CompletionQueue finished(entries);
    finished.attach(&queue, nullptr);
    mlx5::PreparedWrite8 write(queue, {.opcode = mlx5::Opcode::write, .remote_key = 0x1234});
    for (std::uint32_t i = 0; i < 200; ++i) {
        ASSERT_EQ(write.post(i, 0x7000 + i, std::uint64_t{i}), Errc::ok);
        mlx5_wqe_ctrl_seg control;
        std::memcpy(&control, view.send_buffer + std::size_t{i % view.send_blocks} * 64,
                    sizeof control);
        EXPECT_EQ(be32toh(control.opmod_idx_opcode), i << 8 | MLX5_OPCODE_RDMA_WRITE);
        EXPECT_EQ(be32toh(view.doorbell_record[1]), i + 1);
        const volatile std::byte* half = view.doorbell_register + (i % 2) * view.blueflame_bytes;
        EXPECT_EQ(std::memcmp(const_cast<const std::byte*>(half), &control, sizeof control), 0);

        mlx5_cqe64 entry{};
        entry.sop_drop_qpn = htobe32(MLX5_OPCODE_RDMA_WRITE << 24 | view.number);
        entry.wqe_counter = htobe16(static_cast<std::uint16_t>(i));
        entry.op_own = static_cast<std::uint8_t>(MLX5_CQE_REQ << 4 | ((i / entries.entries) & 1));
        std::memcpy(entries.buffer + std::size_t{i % entries.entries} * 64, &entry, sizeof entry);
        mlx5::Completion completion;
        ASSERT_EQ(finished.poll(std::span(&completion, 1)), 1u);
        EXPECT_EQ(completion.id, i);
        EXPECT_EQ(completion.status, Errc::ok);
    }
}

TEST_F(Opened, queue_pairs_may_share_their_receives) {
    const auto shared = device->create_shared_receive_queue({.entries = 63, .max_elements = 2});
    EXPECT_GE(shared->view().entries, 64u);
    QueuePairOptions options;
    options.send_completions = options.receive_completions = completions.get();
    options.shared_receives = shared.get();
    const auto pair = device->create_queue_pair(options);
    EXPECT_EQ(pair->view().receive_entries, 0u);
}

TEST_F(Opened, windows_have_keys_of_their_own_and_regions_are_released_by_request) {
    const auto one = device->create_memory_window(WindowType::domain);
    const auto two = device->create_memory_window(WindowType::queue_pair);
    EXPECT_NE(one->key(), two->key());
    alignas(4096) static std::array<std::byte, 4096> memory;
    const auto region = device->register_memory(memory.data(), memory.size(),
                                                Access::local_write | Access::window_bind, {});
    const std::uint64_t before = *device->invalidation_epoch();
    EXPECT_TRUE(region->alive()->load());
    region->release();
    EXPECT_FALSE(region->alive()->load());
    EXPECT_GT(*device->invalidation_epoch(), before);
}

TEST_F(Opened, completion_queues_with_a_channel_are_armed) {
    const auto channel = device->create_completion_channel();
    const auto queue = device->create_completion_queue(16, channel.get());
    EXPECT_GE(channel->file(), 0);
    EXPECT_EQ(channel->take_event(), nullptr) << "and it does not block";
    mlx5::CompletionQueue armed(queue->view());
    ASSERT_EQ(armed.arm(mlx5::Notify::solicited), Errc::ok);
    EXPECT_EQ(be32toh(queue->view().doorbell_record[1]), 1u << 24);
    EXPECT_THROW(armed.resize(*queue, 64), Error);
    EXPECT_EQ(armed.entries(), queue->view().entries);
}

// The first RoCE v2 entry of the stand-in's table is a link-local one.
TEST_F(Opened, gid_is_that_of_the_connections_address_or_reaches_furthest) {
    const auto gid_at = [&](const std::array<std::uint8_t, 16>& address) {
        QueuePairOptions options;
        options.send_completions = options.receive_completions = completions.get();
        options.local_address = address;
        return device->create_queue_pair(options)->address().gid;
    };
    const std::array<std::uint8_t, 16> loopback{0, 0, 0,    0,    0,   0, 0, 0,
                                                0, 0, 0xff, 0xff, 127, 0, 0, 1};
    EXPECT_EQ(gid_at({}), loopback);
    EXPECT_EQ(gid_at(loopback), loopback);
    std::array<std::uint8_t, 16> elsewhere = loopback;
    elsewhere[12] = 10;
    EXPECT_EQ(gid_at(elsewhere), loopback) << "of another interface";
    std::array<std::uint8_t, 16> link_local{0xfe, 0x80, 0,    0,    0,    0,    0, 0,
                                            0x02, 0x76, 0x62, 0xff, 0xfe, 0x6d, 0, 1};
    EXPECT_EQ(gid_at(link_local), link_local);
    rdma::Options told;
    told.gid_index = 1;
    const auto other = rdma::open_device(told);
    const auto entries = other->create_completion_queue(64);
    QueuePairOptions options;
    options.send_completions = options.receive_completions = entries.get();
    options.local_address = loopback;
    EXPECT_EQ(other->create_queue_pair(options)->address().gid, link_local);
}

// A completion queue as long as both together has room for every request.
TEST_F(Opened, queues_have_the_blocks_and_entries_that_were_asked_for) {
    const auto one = device->create_completion_queue(1 << 17);
    for (const std::uint32_t blocks : {1u, 16u, 100u, 256u, 4096u, 32768u})
        for (const std::uint32_t receives : {1u, 2u, 64u}) {
            QueuePairOptions options;
            options.send_completions = options.receive_completions = one.get();
            options.send_blocks = blocks;
            options.receive_entries = receives;
            const auto pair = device->create_queue_pair(options);
            EXPECT_EQ(pair->view().send_blocks, std::bit_ceil(blocks));
            EXPECT_EQ(pair->view().receive_entries, receives);
            EXPECT_EQ(pair->view().max_inline_bytes, options.max_inline_bytes);
            EXPECT_EQ(pair->view().max_send_elements, options.max_send_elements);
            EXPECT_NO_THROW(mlx5::SendQueue{pair->view()});
            EXPECT_NO_THROW(mlx5::ReceiveQueue{pair->view()});
        }
}

TEST_F(Opened, order_of_bytes_is_asked_of_the_device_once_connected) {
    const auto one = make_pair(), other = make_pair();
    EXPECT_FALSE(one->data_in_order()) << "not connected";
    one->connect(other->address(), 1000);
    EXPECT_TRUE(one->data_in_order());
}

// Devices that are not a ConnectX of today with its firmware at hand.
class Unusual : public testing::Test {
  protected:
    ~Unusual() override { uverbs::set_new_device_traits({}); }
    // Two queue pairs of one device, connected.
    void open(const uverbs::DeviceTraits& traits, bool parked = true) {
        ASSERT_NE(uverbs::sysfs_root(), nullptr);
        setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
        one.reset(), other.reset(), completions.reset();
        uverbs::set_new_device_traits(traits);
        uverbs::park_new_devices(parked);
        device = rdma::open_device();
        completions = device->create_completion_queue(256);
        QueuePairOptions options;
        options.send_completions = options.receive_completions = completions.get();
        one = device->create_queue_pair(options);
        other = device->create_queue_pair(options);
        one->connect(other->address(), 1000);
        other->connect(one->address(), 1000);
    }

    std::unique_ptr<Device> device;
    std::unique_ptr<CompletionQueueHandle> completions;
    std::unique_ptr<QueuePairHandle> one, other;
    alignas(4096) std::array<std::byte, 4096> memory{};
};

TEST_F(Unusual, without_atomics_connects_and_refuses_only_those) {
    for (const bool answers : {true, false}) {
        open({.answers_firmware_queries = answers, .atomics = false});
        EXPECT_EQ(one->state(), QueuePairState::ready);
        EXPECT_FALSE(device->info().atomics);
        EXPECT_FALSE(device->info().masked_atomics);
        EXPECT_FALSE(one->view().atomics);
        try {
            device->register_memory(memory.data(), memory.size(),
                                    Access::local_write | Access::remote_atomic, {});
            ADD_FAILURE() << "remote atomics were allowed";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
        }
    }
}

TEST_F(Unusual, whose_firmware_cannot_be_asked_has_what_verbs_says) {
    open({.answers_firmware_queries = false});
    EXPECT_TRUE(device->info().atomics);
    EXPECT_FALSE(device->info().masked_atomics);
    EXPECT_FALSE(one->view().masked_atomics);
    EXPECT_FALSE(one->data_in_order()) << "not known is not promised";
}

TEST_F(Unusual, that_writes_out_of_order_says_so) {
    open({.data_in_order = false});
    EXPECT_FALSE(one->data_in_order());
}

TEST_F(Unusual, that_answers_few_reads_at_once_is_connected_within_that) {
    open({.reads_at_once = 3});
    EXPECT_EQ(int{one->address().reads_answered}, 3);
    EXPECT_EQ(one->state(), QueuePairState::ready);
}

// One operation at the peer, executed by the software NIC in this device's way; what it returned.
TEST_F(Unusual, with_results_in_big_endian_is_heard_in_host_order) {
    for (const std::uint32_t big_endian : {4u, 4u | 8u}) {
        open({.big_endian_results = big_endian}, false);
        EXPECT_EQ(one->view().big_endian_results, big_endian);
        const auto region = device->register_memory(
            memory.data(), memory.size(),
            Access::local_write | Access::remote_write | Access::remote_atomic, {});
        mlx5::SendQueue queue(one->view());
        mlx5::CompletionQueue finished(completions->view());
        finished.attach(&queue, nullptr);
        const auto at = [&](std::size_t offset) {
            return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
        };
        for (const auto opcode : {mlx5::Opcode::fetch_add, mlx5::Opcode::masked_fetch_add})
            for (const std::uint32_t bytes : {4u, 8u}) {
                const std::uint64_t before = 0x0102030405060708;
                std::memcpy(memory.data() + 64, &before, sizeof before);
                std::memset(memory.data(), 0, 8);
                const mlx5::Element result{at(0), bytes, region->local_key()};
                mlx5::WorkRequest add;
                add.opcode = opcode;
                add.elements = std::span(&result, 1);
                add.remote_address = at(64), add.remote_key = region->remote_key();
                add.swap_or_add = 1;
                ASSERT_EQ(queue.post(add), Errc::ok);
                mlx5::Completion done;
                const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
                while (finished.poll(std::span(&done, 1)) == 0)
                    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
                EXPECT_EQ(done.status, Errc::ok);
                std::uint64_t returned = 0, now = 0;
                std::memcpy(&returned, memory.data(), sizeof returned);
                std::memcpy(&now, memory.data() + 64, sizeof now);
                EXPECT_EQ(returned, bytes == 4 ? before & 0xffffffff : before) << big_endian;
                EXPECT_EQ(now, before + 1);
            }
    }
}

TEST_F(Unusual, raises_events_that_name_the_queue_pair_and_the_reason) {
    open({}, false);
    EXPECT_GE(device->event_file(), 0);
    EXPECT_FALSE(device->take_event()) << "and it does not block";
    const auto region = device->register_memory(memory.data(), memory.size(),
                                                Access::local_write | Access::remote_write, {});
    mlx5::SendQueue queue(one->view());
    const std::uint64_t payload = 7;
    mlx5::WorkRequest write;
    write.opcode = mlx5::Opcode::write;
    write.inline_payload = std::as_bytes(std::span(&payload, 1));
    write.remote_address = reinterpret_cast<std::uint64_t>(memory.data());
    write.remote_key = region->remote_key() ^ 0x100;
    ASSERT_EQ(queue.post(write), Errc::ok);
    pollfd entry{device->event_file(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 30000), 1);
    const auto event = device->take_event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, DeviceEventKind::queue_pair_failed);
    EXPECT_EQ(event->number, other->view().number);
    EXPECT_NE(event->text.find("mlx5_0 queue pair"), std::string::npos) << event->text;
    EXPECT_FALSE(device->take_event());
    other.reset();  // waits for nothing: the event was acknowledged
}

}  // namespace
}  // namespace verbatim
