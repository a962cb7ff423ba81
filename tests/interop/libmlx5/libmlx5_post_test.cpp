// What our send queue writes is what libmlx5 writes for the same requests, byte for byte.
#include "twin.hpp"

namespace verbatim::interop {
namespace {

using mlx5::test::atomic_request;
using mlx5::test::gather_request;
using mlx5::test::inline_request;

constexpr Opcode kOpcodes[] = {Opcode::write,          Opcode::write_immediate, Opcode::send,
                               Opcode::send_immediate, Opcode::send_invalidate, Opcode::read,
                               Opcode::compare_swap,   Opcode::fetch_add};

struct Kind {
    ibv_qp_type type;
    Opcode opcode;
};

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

// Somewhere for datagrams to go, and null on connections.
class Target {
  public:
    Target(Twin& twin, ibv_qp_type type) {
        if (type != IBV_QPT_UD) return;
        target_ = &twin.add_target(address_attributes(7), 0xfedcba, 0x80010002);
    }
    const mlx5::DatagramTarget* get() const { return target_; }

  private:
    const mlx5::DatagramTarget* target_ = nullptr;
};

// Until the next request starts there; each is posted and retired at once.
void advance_to(Twin& twin, std::uint32_t position, const Target& target) {
    while (twin.next() % twin.blocks() != position) {
        // Of one block.
        Request one = target.get() != nullptr ? mlx5::test::request(Opcode::send)
                                              : inline_request(Opcode::write, 8);
        one.work.target = target.get();
        const std::uint32_t counter = twin.next();
        twin.post(one);
        twin.complete(counter);
    }
}

class EachOpcode : public testing::TestWithParam<Kind> {};

// `post` posts one request to both sides and compares.
template <class Post>
void compare_everywhere(const Kind& kind, Post&& post) {
    const auto [type, opcode] = kind;
    Twin twin({.type = type, .send_requests = 1});
    Target target(twin, type);
    for (std::uint32_t position = 0; position < twin.blocks(); ++position)
        for (Request& request : shapes(opcode, twin.lib().inline_bytes, 8))
            for (unsigned flags = 0; flags < 8 && !testing::Test::HasFailure(); ++flags) {
                advance_to(twin, position, target);
                set_flags(request, flags);
                request.work.target = target.get();
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

std::string kind_name(const testing::TestParamInfo<Kind>& kind) {
    const ibv_qp_type type = kind.param.type;
    return std::string(type == IBV_QPT_RC   ? "rc"
                       : type == IBV_QPT_UC ? "uc"
                                            : "ud") +
           "_opcode_" + std::to_string(static_cast<int>(kind.param.opcode));
}
std::vector<Kind> all_kinds() {
    std::vector<Kind> all;
    for (const Opcode opcode : kOpcodes) all.push_back({IBV_QPT_RC, opcode});
    for (const Opcode opcode : kOpcodes)
        if (opcode != Opcode::read && !mlx5::is_atomic(opcode)) all.push_back({IBV_QPT_UC, opcode});
    for (const Opcode opcode : {Opcode::send, Opcode::send_immediate})
        all.push_back({IBV_QPT_UD, opcode});
    return all;
}
INSTANTIATE_TEST_SUITE_P(Libmlx5, EachOpcode, testing::ValuesIn(all_kinds()), kind_name);

}  // namespace
}  // namespace verbatim::interop
