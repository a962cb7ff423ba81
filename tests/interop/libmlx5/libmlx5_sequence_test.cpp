// Requests after each other and in lists: what one leaves for the next (fences, halves of the
// register, places in the ring) is as libmlx5 has it.
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
    Request small = inline_request(Opcode::write, 24), large = gather_request(Opcode::read, 6);
    Request update = request(Opcode::local_invalidate);
    mlx5::Prepared<Opcode::write, mlx5::Inline<24>> write(twin.ours(), small.get());
    mlx5::Prepared<Opcode::read, mlx5::Elements<6>> read(twin.ours(), large.get());
    const auto post_both = [&](Request& asked) {
        twin.post_to_lib(asked);
        const std::uint64_t to = asked.work.remote_address;
        const Errc result = &asked == &small ? write.post(0, to, asked.inline_payload.data())
                                             : read.post(0, to, mlx5::kUnchanged);
        ASSERT_EQ(result, Errc::ok);
        twin.expect_same(1);
    };
    for (int round = 0; round < 3; ++round) {
        post_both(small);
        twin.post(update);
        post_both(small);
        post_both(small);
        twin.post(update);
        post_both(large);
        twin.post(update);
        twin.post(update);
        twin.complete(twin.last_first_block());
        post_both(small);
        twin.complete(twin.last_first_block());
    }
}

// The `nth` of a list that changes from round to round, the last of `count` signaled.
Request listed(Request asked, std::uint32_t round, std::uint32_t nth, std::uint32_t count) {
    asked.work.id = 100 * round + nth;
    asked.work.remote_key = 0xc0ffee + nth;
    asked.work.remote_address = 0x7000 + 64 * nth + round;
    asked.work.signaled = nth == count - 1;
    for (std::byte& byte : asked.inline_payload) byte ^= static_cast<std::byte>(31 * round + nth);
    for (mlx5::Element& element : asked.elements) element.address += 1000 * round + nth;
    return asked;
}

// Lists of every length, behind a key update and not.
template <class Prepared, class Payload>
void expect_lists_alike(Prepared& prepared, Twin& twin, const Request& kind, Payload&& payload) {
    Request update = request(Opcode::local_invalidate);
    for (std::uint32_t round = 0; round < 200 && !testing::Test::HasFailure(); ++round) {
        const std::uint32_t count = 1 + round % 8;
        std::vector<Request> asked;
        for (std::uint32_t i = 0; i < count; ++i) asked.push_back(listed(kind, round, i, count));
        if (round % 3 == 0) twin.post(update);
        twin.post_to_lib(asked);
        const auto nth = [&](std::uint32_t i) {
            const mlx5::WorkRequest& work = asked[i].work;
            return mlx5::Listed{mlx5::RemoteMemory{work.remote_address, work.remote_key},
                                payload(asked[i])};
        };
        ASSERT_EQ(prepared.post_list(100 * round, count, nth), Errc::ok);
        twin.expect_same(count);
        twin.complete(twin.last_first_block());
    }
}

TEST(Libmlx5, lists_of_prepared_small_writes_are_written_as_it_writes_them) {
    Twin twin({.send_requests = 8});
    const Request kind = inline_request(Opcode::write, 8);
    mlx5::PreparedWrite8 write(twin.ours(), {.opcode = Opcode::write});
    expect_lists_alike(write, twin, kind, [](const Request& asked) {
        std::uint64_t payload = 0;
        std::memcpy(&payload, asked.inline_payload.data(), sizeof payload);
        return payload;
    });
}

TEST(Libmlx5, lists_of_prepared_reads_are_written_as_it_writes_them) {
    Twin twin({.send_requests = 8});
    Request kind = gather_request(Opcode::read, 2);
    mlx5::Prepared<Opcode::read, mlx5::Gather<2>> read(twin.ours(), kind.get());
    expect_lists_alike(read, twin, kind, [](const Request& asked) {
        return [&asked](std::uint32_t k) { return asked.elements[k]; };
    });
}

TEST(Libmlx5, prepared_atomics_are_written_as_it_writes_them) {
    Twin twin({.send_requests = 8});
    Request added = atomic_request(Opcode::fetch_add), swap = atomic_request(Opcode::compare_swap);
    mlx5::Prepared<Opcode::fetch_add, mlx5::Addend> add(twin.ours(), added.get());
    mlx5::Prepared<Opcode::compare_swap, mlx5::Exchange> exchange(twin.ours(), swap.get());
    for (std::uint64_t i = 0; i < 100 && !HasFailure(); ++i) {
        const std::uint64_t to = added.work.remote_address = swap.work.remote_address = i * 8;
        added.work.swap_or_add = i * 77;
        twin.post_to_lib(added);
        ASSERT_EQ(add.post(added.work.id, to, i * 77), Errc::ok);
        twin.expect_same(1);
        swap.work.compare = ~i;
        swap.work.swap_or_add = i * 0x1234567;
        twin.post_to_lib(swap);
        const mlx5::Exchange::Values values{~i, i * 0x1234567};
        ASSERT_EQ(exchange.post(swap.work.id, to, values), Errc::ok);
        twin.expect_same(1);
        twin.complete(twin.last_first_block());
    }
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
