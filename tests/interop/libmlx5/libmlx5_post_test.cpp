// What our send queue writes is what libmlx5 writes for the same requests, byte for byte.
#include "twin.hpp"

namespace verbatim::interop {
namespace {

using mlx5::test::atomic_request;
using mlx5::test::gather_request;
using mlx5::test::inline_request;

constexpr Opcode kPosted[] = {Opcode::write,          Opcode::write_immediate, Opcode::send,
                              Opcode::send_immediate, Opcode::send_invalidate, Opcode::read,
                              Opcode::compare_swap,   Opcode::fetch_add};

// Every flag on and off.
void set_flags(Request& request, unsigned bits) {
    request.work.signaled = (bits & 1) != 0;
    request.work.fence = (bits & 2) != 0;
    request.work.solicited = (bits & 4) != 0;
}

// Every shape that an opcode may have, within the twin's limits.
std::vector<Request> shapes(Opcode opcode, std::uint32_t inline_bytes, std::uint32_t elements) {
    std::vector<Request> all;
    if (mlx5::is_atomic(opcode)) {
        all.push_back(atomic_request(opcode, 1));
        return all;
    }
    for (std::uint32_t n = 1; n <= elements; ++n) all.push_back(gather_request(opcode, n, n));
    if (!mlx5::takes_inline_payload(opcode)) return all;
    for (const std::uint32_t bytes :
         {1u,  3u,  4u,  8u,  11u,  12u,  13u,  16u,  27u,  28u,  29u, 44u,
          60u, 64u, 76u, 92u, 100u, 128u, 156u, 172u, 188u, 200u, 236u})
        if (bytes <= inline_bytes) all.push_back(inline_request(opcode, bytes, bytes));
    return all;
}

// Until the next request starts there; each is posted and retired at once.
void advance_to(Twin& twin, std::uint32_t position) {
    while (twin.next() % twin.blocks() != position) {
        Request one = inline_request(Opcode::write, 8);  // of one block
        const std::uint32_t counter = twin.next();
        twin.post(one);
        twin.complete(counter);
    }
}

class EachOpcode : public testing::TestWithParam<Opcode> {};

// `post` posts one request to both sides and compares.
template <class Post>
void compare_everywhere(Opcode opcode, Post&& post) {
    Twin twin({.send_requests = 1});
    for (std::uint32_t position = 0; position < twin.blocks(); ++position)
        for (Request& request : shapes(opcode, twin.lib().inline_bytes, 8))
            for (unsigned flags = 0; flags < 8 && !testing::Test::HasFailure(); ++flags) {
                advance_to(twin, position);
                set_flags(request, flags);
                const std::uint32_t counter = twin.next();
                post(twin, request);
                twin.complete(counter);
            }
}

TEST_P(EachOpcode, of_every_shape_and_flag_at_every_place_of_the_ring_is_written_alike) {
    compare_everywhere(GetParam(), [](Twin& twin, Request& request) { twin.post(request); });
}

TEST_P(EachOpcode, is_written_as_libmlx5s_request_builder_writes_it) {
    compare_everywhere(GetParam(), [](Twin& twin, Request& request) {
        twin.post_by_builder(std::span(&request, 1));
    });
}

std::string opcode_name(const testing::TestParamInfo<Opcode>& opcode) {
    return "rc_opcode_" + std::to_string(static_cast<int>(opcode.param));
}
INSTANTIATE_TEST_SUITE_P(Libmlx5, EachOpcode, testing::ValuesIn(kPosted), opcode_name);

}  // namespace
}  // namespace verbatim::interop
