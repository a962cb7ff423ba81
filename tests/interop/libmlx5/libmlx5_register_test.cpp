// Doorbell registers of every kind that libmlx5 knows: what is written to them is the same.
#include "random_requests.hpp"
#include "twin.hpp"

namespace verbatim::interop {
namespace {

using mlx5::test::gather_request;
using mlx5::test::inline_request;

struct Mapping {
    const char* name;
    PairOptions options;
};

class EachRegister : public testing::TestWithParam<Mapping> {};

TEST_P(EachRegister, is_written_alike_for_single_requests_of_every_size) {
    Twin twin(GetParam().options);
    for (int lap = 0; lap < 3; ++lap)
        for (std::uint32_t bytes = 1; bytes <= twin.lib().inline_bytes && !HasFailure(); ++bytes) {
            Request one = inline_request(Opcode::write, bytes, bytes);
            twin.post(one);
            twin.complete(twin.last_first_block());
            one = gather_request(Opcode::read, 1 + bytes % 8);
            twin.post_by_builder(std::span(&one, 1));
            twin.complete(twin.last_first_block());
        }
}

TEST_P(EachRegister, is_written_alike_for_random_lists) {
    for (const bool by_builder : {false, true}) expect_alike(GetParam().options, 9, by_builder);
}

std::vector<Mapping> all_kinds() {
    std::vector<Mapping> all{
        {"of_one_pair", {}},
        {"of_a_thread_domain", {.thread_domain = true}},
        {"with_a_lock", {.earlier_pairs = 6}},
        {"handed_out_twice", {.earlier_pairs = 15}},
        {"of_one_thread", {.variable = "MLX5_SINGLE_THREADED"}},
        {"of_eight_bytes", {.variable = "MLX5_SHUT_UP_BF"}},
        {"of_eight_bytes_with_a_lock", {.variable = "MLX5_SHUT_UP_BF", .earlier_pairs = 6}},
        {"of_eight_bytes_of_a_thread_domain",
         {.variable = "MLX5_SHUT_UP_BF", .thread_domain = true}}};
    for (Mapping& kind : all) kind.options.send_requests = 12;
    return all;
}
INSTANTIATE_TEST_SUITE_P(Libmlx5, EachRegister, testing::ValuesIn(all_kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

// The known difference: libmlx5 copies no WQE of one unit, for whatever reason; we copy what fits.
TEST(Libmlx5, empty_sends_are_rung_by_eight_bytes_and_copied_by_us) {
    Twin twin;
    Request empty = mlx5::test::request(Opcode::send);
    twin.post_to_lib(empty);
    ASSERT_EQ(twin.ours().post(empty.get()), Errc::ok);
    const Written ours = twin.take_ours(1), theirs = twin.take_lib(1);
    EXPECT_TRUE(std::equal(ours.wqes.begin(), ours.wqes.begin() + 16, theirs.wqes.begin()));
    EXPECT_TRUE(std::equal(ours.bells.begin(), ours.bells.begin() + 16, ours.wqes.begin()));
    EXPECT_TRUE(std::equal(theirs.bells.begin(), theirs.bells.begin() + 8, theirs.wqes.begin()));
    EXPECT_EQ(std::count(theirs.bells.begin() + 8, theirs.bells.end(), std::byte{0}), 504);
}

}  // namespace
}  // namespace verbatim::interop
