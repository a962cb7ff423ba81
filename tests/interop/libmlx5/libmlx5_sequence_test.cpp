// Requests after each other and in lists: what one leaves for the next (fences, halves of the
// register, places in the ring) is as libmlx5 has it.
#include <random>

#include "random_requests.hpp"
#include "twin.hpp"

namespace verbatim::interop {
namespace {

using mlx5::test::atomic_request;
using mlx5::test::gather_request;
using mlx5::test::inline_request;
using mlx5::test::request;

TEST(Libmlx5, lists_of_anything_in_any_order_are_written_alike) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
        expect_alike({.send_requests = 12}, seed, false);
}

TEST(Libmlx5, lists_that_its_builder_makes_are_written_alike) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) expect_alike({.send_requests = 12}, seed, true);
}

TEST(Libmlx5, lists_on_unreliable_connections_are_written_alike) {
    for (const bool by_builder : {false, true})
        expect_alike({.type = IBV_QPT_UC, .send_requests = 12}, 5, by_builder);
}

TEST(Libmlx5, a_key_update_holds_back_the_next_request_only) {
    for (const Opcode next : {Opcode::write, Opcode::read, Opcode::local_invalidate}) {
        Twin twin;
        Request update = request(Opcode::local_invalidate);
        twin.post(update);
        twin.post(update);
        Request after = next == Opcode::local_invalidate ? update : gather_request(next, 1);
        twin.post(after);
        twin.post(after);
        after.work.fence = true;
        twin.post(update);
        twin.post(after);
        twin.post(after);
    }
}

TEST(Libmlx5, prepared_requests_behind_a_key_update_are_fenced_as_its_are) {
    Twin twin;
    Request small = inline_request(Opcode::write, 8), large = gather_request(Opcode::read, 6);
    Request update = request(Opcode::local_invalidate);
    mlx5::Prepared first(twin.ours(), small.get()), second(twin.ours(), large.get()),
        third(twin.ours(), update.get());
    const auto post_both = [&](mlx5::Prepared& prepared, Request& asked) {
        twin.post_to_lib(asked);
        ASSERT_EQ(prepared.post(asked.work.id), Errc::ok);
        twin.expect_same(1);
    };
    for (int round = 0; round < 3; ++round) {
        post_both(first, small);
        post_both(third, update);
        post_both(first, small);
        post_both(first, small);
        post_both(third, update);
        post_both(second, large);
        post_both(third, update);
        post_both(third, update);
        twin.complete(twin.last_first_block());
        post_both(first, small);
        twin.complete(twin.last_first_block());
    }
}

TEST(Libmlx5, lists_of_prepared_small_writes_are_written_as_it_writes_them) {
    Twin twin({.send_requests = 8});
    mlx5::PreparedWrite8 write(twin.ours(), {0, 0xc0ffee});
    Request update = request(Opcode::local_invalidate);
    std::uint64_t payload = 0x0102030405060708;
    for (std::uint32_t round = 0; round < 200 && !HasFailure(); ++round) {
        const std::uint32_t count = 1 + round % 8;
        std::vector<Request> asked;
        for (std::uint32_t i = 0; i < count; ++i) {
            asked.push_back(inline_request(Opcode::write, 8, 100 * round + i));
            asked.back().work.remote_key = 0xc0ffee;
            asked.back().work.remote_address = 0x7000 + 64 * i + round;
            asked.back().work.signaled = i == count - 1;
            payload = payload * 31 + i;
            std::memcpy(asked.back().inline_payload.data(), &payload, sizeof payload);
        }
        if (round % 3 == 0) twin.post(update);
        twin.post_to_lib(asked);
        ASSERT_EQ(
            write.post_list(100 * round, count,
                            [&](std::uint32_t i) {
                                mlx5::PreparedWrite8::Write one{asked[i].work.remote_address, 0};
                                std::memcpy(&one.payload, asked[i].inline_payload.data(), 8);
                                return one;
                            }),
            Errc::ok);
        twin.expect_same(count);
        twin.complete(twin.last_first_block());
    }
}

TEST(Libmlx5, datagrams_to_many_peers_in_lists_are_written_alike) {
    for (const bool by_builder : {false, true}) {
        Twin twin({.type = IBV_QPT_UD, .send_requests = 12});
        std::vector<const mlx5::DatagramTarget*> targets;
        for (std::uint8_t i = 0; i < 40; ++i)
            targets.push_back(&twin.add_target(address_attributes(i), 0xffffffu >> (i % 24),
                                               0x01020304u << (i % 8)));
        std::mt19937_64 random(1);
        for (int round = 0; round < 2000 && !HasFailure(); ++round) {
            std::vector<Request> list;
            for (std::size_t count = 1 + random() % 4; count > 0; --count) {
                const Opcode opcode = random() % 2 == 0 ? Opcode::send : Opcode::send_immediate;
                list.push_back(random() % 2 == 0
                                   ? inline_request(opcode, 1 + random() % twin.lib().inline_bytes)
                                   : gather_request(opcode, 1 + random() % 8));
                list.back().work.target = targets[random() % targets.size()];
                list.back().work.immediate = static_cast<std::uint32_t>(random());
                list.back().work.solicited = random() % 2 == 0;
            }
            if (by_builder)
                twin.post_by_builder(list);
            else
                twin.post(list);
            twin.complete(twin.last_first_block());
        }
    }
}

TEST(Libmlx5, prepared_datagrams_are_written_as_it_writes_them) {
    Twin twin({.type = IBV_QPT_UD});
    std::vector<const mlx5::DatagramTarget*> targets;
    for (std::uint8_t i = 0; i < 7; ++i)
        targets.push_back(&twin.add_target(address_attributes(i), 0x123456u + i, 0x11111111u * i));
    for (Request asked : {request(Opcode::send), inline_request(Opcode::send_immediate, 100),
                          gather_request(Opcode::send, 5)}) {
        asked.work.target = targets[0];
        mlx5::Prepared prepared(twin.ours(), asked.get());
        for (std::uint8_t round = 0; round < 100 && !HasFailure(); ++round) {
            if (!asked.inline_payload.empty()) {
                asked.inline_payload.assign(100, std::byte{round});
                ASSERT_EQ(prepared.set_inline_payload(asked.inline_payload), Errc::ok);
            }
            if (!asked.elements.empty()) {
                asked.elements[4].address += round;
                ASSERT_EQ(prepared.set_element(4, asked.elements[4].address, 72), Errc::ok);
            }
            asked.work.target = targets[round % targets.size()];
            ASSERT_EQ(prepared.set_target(*asked.work.target), Errc::ok);
            twin.post_to_lib(asked);
            ASSERT_EQ(prepared.post(0), Errc::ok);
            twin.expect_same(1);
            twin.complete(twin.last_first_block());
        }
        mlx5::DatagramTarget impossible = *targets[0];
        impossible.priority = 8;
        EXPECT_EQ(prepared.set_target(impossible), Errc::invalid_argument);
    }
}

TEST(Libmlx5, a_prepared_request_of_a_connection_has_no_target) {
    Twin twin;
    Request asked = request(Opcode::send);
    mlx5::Prepared prepared(twin.ours(), asked.get());
    EXPECT_EQ(prepared.set_target({}), Errc::invalid_argument);
}

TEST(Libmlx5, error_completions_are_read_alike) {
    for (const std::uint8_t syndrome :
         {MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
          MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR,
          MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR,
          MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR}) {
        Twin twin;
        Request asked = inline_request(Opcode::write, 8, 77);
        twin.post(asked);
        twin.complete(0, syndrome);
    }
}

TEST(Libmlx5, reads_of_any_length_report_their_bytes_alike) {
    Twin twin;
    for (const std::uint32_t bytes : {1u, 8u, 4096u, 1u << 31}) {
        Request asked = gather_request(Opcode::read, 2, bytes);
        const std::uint32_t counter = twin.next();
        twin.post(asked);
        twin.complete(counter, 0, bytes);
    }
}

}  // namespace
}  // namespace verbatim::interop
