// The same raw completion entries, good and bad, for ibv_poll_cq, for ibv_start_poll and
// ibv_next_poll, and for our completion queue: the same answers.
#include <functional>
#include <random>

#include "sides.hpp"

namespace verbatim::interop {
namespace {

using mlx5::Element;
using mlx5::Opcode;
using mlx5::test::Request;

struct Kind {
    std::uint32_t entry_bytes;
    bool shared;
};

PairOptions options_of(const Kind& kind, bool extended) {
    PairOptions options;
    options.completions = 15;
    options.receive_elements = 3;
    options.receive_requests = kind.shared ? 0 : 16;
    options.shared_requests = kind.shared ? 15 : 0;
    options.entry_bytes = kind.entry_bytes;
    options.extended = extended;
    return options;
}

// What the three sides may scatter to, each in its own memory.
using Memory = std::array<std::byte, 256>;

class Trio {
  public:
    explicit Trio(const Kind& kind)
        : plain_(options_of(kind, false)),
          extended_(options_of(kind, true)),
          ours_(plain_, options_of(kind, false)) {}

    std::uint32_t number() { return plain_.queues().pair->qp_num; }
    std::uint32_t entries() { return plain_.queues().completion_facts.cqe_cnt; }

    // Posts a receive whose elements are pieces of each side's memory, one behind the other. Its
    // index, where the queue is shared: they are taken in turn, while all retire at once.
    void receive(std::span<const std::uint32_t> pieces = {}) {
        ++id_;
        for (std::size_t side = 0; side < 3; ++side) {
            memory[side].fill(std::byte{0xcc});
            Receive one{id_, {}};
            std::uint64_t at = reinterpret_cast<std::uint64_t>(memory[side].data());
            for (const std::uint32_t bytes : pieces) {
                one.elements.push_back({at, bytes, 1});
                at += bytes + 1;
            }
            if (side == 2) {
                ASSERT_EQ(ours_.receive({&one, 1}), Errc::ok);
            } else {
                ASSERT_EQ((side == 0 ? plain_ : extended_).receive({&one, 1}), 0);
            }
        }
        indexes_.push_back(next_index_);
        next_index_ = static_cast<std::uint16_t>((next_index_ + 1) % plain_.receive_entries());
    }
    // Posts to all; elements are moved into each side's memory.
    void send(Request request) {
        request.work.id = ++id_;
        for (std::size_t side = 0; side < 3; ++side) {
            memory[side].fill(std::byte{0xcc});
            std::uint64_t at = reinterpret_cast<std::uint64_t>(memory[side].data());
            for (Element& element : request.elements) {
                element.address = at;
                at += element.bytes + 1;
            }
            if (side == 2) {
                ASSERT_EQ(ours_.send(request), Errc::ok);
            } else {
                ASSERT_EQ((side == 0 ? plain_ : extended_).send(request), 0);
            }
        }
        opcodes_.push_back({next_block_, mlx5::wire_opcode(request.work.opcode)});
        next_block_ =
            static_cast<std::uint16_t>(next_block_ + mlx5::shape_of(request.get()).blocks());
    }

    // An entry of the oldest receive, or of the newest send.
    RawEntry of_receive(std::uint8_t opcode) {
        RawEntry raw = entry(opcode);
        raw.cqe.wqe_counter = htobe16(indexes_.front());
        indexes_.erase(indexes_.begin());
        return raw;
    }
    RawEntry of_send(std::uint8_t opcode = MLX5_CQE_REQ) {
        RawEntry raw = entry(opcode);
        raw.cqe.sop_drop_qpn = htobe32(std::uint32_t{opcodes_.back().opcode} << 24 | number());
        raw.cqe.wqe_counter = htobe16(opcodes_.back().block);
        return raw;
    }

    void write(const RawEntry& raw) {
        plain_.write(raw);
        // Its queue pair has a number of its own.
        RawEntry its = raw;
        const std::uint32_t opcode_number = be32toh(raw.cqe.sop_drop_qpn);
        if ((opcode_number & 0xffffff) == number())
            its.cqe.sop_drop_qpn =
                htobe32((opcode_number & 0xff000000) | extended_.queues().pair->qp_num);
        extended_.write(its);
        ours_.write(raw);
    }
    // As the other two would say it.
    std::optional<Answer> renumbered(std::optional<Answer> answer) {
        if (answer && answer->number == extended_.queues().pair->qp_num) answer->number = number();
        return answer;
    }
    std::optional<Answer> poll() {
        const auto plain = plain_.poll(), extended = renumbered(extended_.poll());
        EXPECT_EQ(plain.has_value(), extended.has_value());
        if (plain && extended) {
            EXPECT_EQ(*plain, *extended);
        }
        ours_.expect_same(plain);
        return plain;
    }
    // All there are at once.
    std::size_t poll_all() {
        const auto plain = plain_.poll_all();
        auto extended = extended_.poll_all();
        for (auto& answer : extended) answer = *renumbered(answer);
        EXPECT_EQ(plain, extended);
        ours_.expect_same(plain);
        return plain.size();
    }
    std::optional<Answer> answer(const RawEntry& raw) {
        write(raw);
        const auto said = poll();
        expect_same_record();
        return said;
    }
    void expect_same_record() {
        EXPECT_EQ(ours_.consumer_record(), plain_.consumer_record()) << "consumer index";
        EXPECT_EQ(ours_.consumer_record(), extended_.consumer_record()) << "consumer index";
    }
    void expect_same_memory() {
        EXPECT_TRUE(memory[0] == memory[1] && memory[0] == memory[2]) << "scattered data";
    }
    std::uint64_t strays() { return ours_.completions().strays(); }

    std::array<Memory, 3> memory{};

  private:
    struct Sent {
        std::uint16_t block;
        std::uint8_t opcode;
    };
    RawEntry entry(std::uint8_t opcode) {
        RawEntry raw;
        raw.cqe.op_own = static_cast<std::uint8_t>(opcode << 4);
        raw.cqe.srqn_uidx = htobe32(LibQueues::kUserIndex);
        raw.cqe.sop_drop_qpn = htobe32(number());
        return raw;
    }

    LibSide plain_, extended_;
    OurSide ours_;
    std::uint64_t id_ = 0;
    std::uint16_t next_index_ = 0, next_block_ = 0;
    std::vector<std::uint16_t> indexes_;
    std::vector<Sent> opcodes_;
};

constexpr std::uint8_t kResponder[] = {MLX5_CQE_RESP_WR_IMM, MLX5_CQE_RESP_SEND,
                                       MLX5_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_INV};

Request any_send(Opcode opcode, std::uint32_t elements = 1) {
    if (mlx5::is_atomic(opcode)) return mlx5::test::atomic_request(opcode);
    if (opcode == Opcode::local_invalidate) return mlx5::test::request(opcode);
    return mlx5::test::gather_request(opcode, elements);
}
constexpr Opcode kOpcodes[] = {
    Opcode::write,          Opcode::write_immediate, Opcode::send,
    Opcode::send_immediate, Opcode::send_invalidate, Opcode::read,
    Opcode::compare_swap,   Opcode::fetch_add,       Opcode::local_invalidate};

class EachEntry : public testing::TestWithParam<Kind> {};
class EntryOfOwnReceives : public EachEntry {};
class SmallEntry : public EachEntry {};

// Bytes whose meaning depends on the kind of message, which none of ours is.
void fill_transport_fields(RawEntry& raw, std::mt19937& random) {
    for (std::size_t i = 0; i < 32; ++i)
        reinterpret_cast<std::byte*>(&raw.cqe)[i] = static_cast<std::byte>(random());
    for (std::byte& byte : raw.before) byte = static_cast<std::byte>(random());
    raw.cqe.timestamp = random();
    raw.cqe.signature = static_cast<std::uint8_t>(random());
}

TEST_P(EachEntry, of_a_responder_is_read_alike) {
    Trio trio(GetParam());
    std::mt19937 random(1);
    for (int round = 0; round < 500 && !HasFailure(); ++round)
        for (const std::uint8_t opcode : kResponder)
            for (const bool solicited : {false, true}) {
                trio.receive();
                RawEntry raw = trio.of_receive(opcode);
                fill_transport_fields(raw, random);
                raw.cqe.op_own |= solicited ? 2 : 0;
                raw.cqe.byte_cnt = htobe32(static_cast<std::uint32_t>(random()));
                raw.cqe.imm_inval_pkey = static_cast<std::uint32_t>(random());
                EXPECT_EQ(trio.answer(raw)->status, IBV_WC_SUCCESS);
            }
}

TEST_P(EachEntry, of_a_requester_is_read_alike_and_retires_all_before_it) {
    Trio trio(GetParam());
    std::mt19937 random(1);
    for (int round = 0; round < 500 && !HasFailure(); ++round)
        for (const Opcode opcode : kOpcodes) {
            for (std::uint32_t unsignaled = random() % 4; unsignaled > 0; --unsignaled) {
                Request before = any_send(kOpcodes[random() % std::size(kOpcodes)]);
                before.work.signaled = false;
                trio.send(before);
            }
            trio.send(any_send(opcode));
            RawEntry raw = trio.of_send();
            fill_transport_fields(raw, random);
            raw.cqe.byte_cnt = htobe32(static_cast<std::uint32_t>(random()));
            raw.cqe.imm_inval_pkey = static_cast<std::uint32_t>(random());
            EXPECT_EQ(trio.answer(raw)->status, IBV_WC_SUCCESS);
        }
}

TEST_P(EachEntry, of_an_error_of_every_syndrome_is_read_alike) {
    Trio trio(GetParam());
    for (unsigned syndrome = 0; syndrome < 256 && !HasFailure(); ++syndrome)
        for (const unsigned vendor : {0x00u, 0x5au, 0xffu}) {
            const auto failed = [&](RawEntry raw) {
                reinterpret_cast<mlx5_err_cqe&>(raw.cqe).syndrome =
                    static_cast<std::uint8_t>(syndrome);
                reinterpret_cast<mlx5_err_cqe&>(raw.cqe).vendor_err_synd =
                    static_cast<std::uint8_t>(vendor);
                return raw;
            };
            trio.receive();
            EXPECT_NE(trio.answer(failed(trio.of_receive(MLX5_CQE_RESP_ERR)))->status,
                      IBV_WC_SUCCESS);
            trio.send(any_send(kOpcodes[syndrome % std::size(kOpcodes)]));
            EXPECT_NE(trio.answer(failed(trio.of_send(MLX5_CQE_REQ_ERR)))->status, IBV_WC_SUCCESS);
        }
}

// Puts `bytes` where an entry of this format has them.
void put_inline(RawEntry& raw, std::uint8_t format, std::uint32_t bytes) {
    const auto data = mlx5::test::pattern(64, 3);
    raw.cqe.op_own |= format;
    raw.cqe.byte_cnt = htobe32(bytes);
    if (format == MLX5_INLINE_SCATTER_32)
        std::memcpy(&raw.cqe, data.data(), 32);
    else
        std::memcpy(raw.before.data(), data.data(), 64);
}

TEST_P(EachEntry, with_received_data_in_it_leaves_them_in_the_same_places) {
    Trio trio(GetParam());
    const bool large = GetParam().entry_bytes == 128;
    for (const std::uint8_t format : {MLX5_INLINE_SCATTER_32, MLX5_INLINE_SCATTER_64}) {
        if (format == MLX5_INLINE_SCATTER_64 && !large) continue;
        const std::uint32_t most = format == MLX5_INLINE_SCATTER_32 ? 32 : 64;
        for (std::uint32_t bytes = 1; bytes <= most && !HasFailure(); ++bytes)
            for (const std::array<std::uint32_t, 3>& pieces :
                 {std::array{64u, 1u, 1u}, {1u, 64u, 1u}, {5u, 7u, 64u}, {16u, 16u, 32u}})
                for (const std::uint8_t opcode : kResponder) {
                    trio.receive(pieces);
                    RawEntry raw = trio.of_receive(opcode);
                    put_inline(raw, format, bytes);
                    raw.cqe.imm_inval_pkey = htobe32(7);
                    EXPECT_EQ(trio.answer(raw)->status, IBV_WC_SUCCESS);
                    trio.expect_same_memory();
                }
    }
}

// Not of shared queues: libmlx5 takes the link of the next entry for one more piece, and stores
// through it.
TEST_P(EntryOfOwnReceives, with_more_data_than_the_list_takes_fails_alike) {
    Trio trio(GetParam());
    for (std::uint32_t bytes = 10; bytes <= 32 && !HasFailure(); ++bytes) {
        constexpr std::array<std::uint32_t, 3> kPieces{3, 2, 4};
        trio.receive(kPieces);
        RawEntry raw = trio.of_receive(MLX5_CQE_RESP_SEND);
        put_inline(raw, MLX5_INLINE_SCATTER_32, bytes);
        EXPECT_EQ(trio.answer(raw)->status, IBV_WC_LOC_LEN_ERR);
        trio.expect_same_memory();
    }
}

// Of 64-byte entries: in large ones libmlx5 looks for them where no device puts them.
TEST_P(SmallEntry, with_read_data_in_it_leaves_them_in_the_same_places) {
    Trio trio(GetParam());
    for (std::uint32_t elements = 1; elements <= 4; ++elements)
        for (std::uint32_t bytes = 1; bytes <= 32 && !HasFailure(); ++bytes) {
            Request read = any_send(Opcode::read, elements);
            for (Element& element : read.elements) element.bytes = 7;
            trio.send(read);
            RawEntry raw = trio.of_send();
            put_inline(raw, MLX5_INLINE_SCATTER_32, bytes);
            EXPECT_EQ(trio.answer(raw)->status,
                      bytes <= 7 * elements ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR);
            trio.expect_same_memory();
        }
    for (const Opcode opcode : {Opcode::compare_swap, Opcode::fetch_add})
        for (const std::uint32_t told : {8u, 0u, 32u}) {  // libmlx5 knows better
            trio.send(any_send(opcode));
            RawEntry raw = trio.of_send();
            put_inline(raw, MLX5_INLINE_SCATTER_32, told);
            EXPECT_EQ(trio.answer(raw)->bytes, 8u);
            // Big endian in the entry: libmlx5 leaves it so, we do not.
            std::reverse(trio.memory[2].begin(), trio.memory[2].begin() + 8);
            trio.expect_same_memory();
        }
}

TEST_P(EachEntry, is_taken_in_its_lap_only_and_counted_alike) {
    Trio trio(GetParam());
    std::mt19937 random(1);
    EXPECT_FALSE(trio.poll());
    for (int round = 0; round < 5000 && !HasFailure(); ++round) {
        const std::uint32_t count = static_cast<std::uint32_t>(random()) % (trio.entries() + 1);
        for (std::uint32_t i = 0; i < count; ++i) {
            if (random() % 2 == 0 && i < 15) {
                trio.receive();
                trio.write(trio.of_receive(kResponder[random() % 4]));
                continue;
            }
            trio.send(any_send(Opcode::write));
            trio.write(trio.of_send());
            if (i % 4 == 3) trio.poll();  // one, or all of them at the end
        }
        trio.poll_all();
        EXPECT_FALSE(trio.poll());
        trio.expect_same_record();
    }
}

TEST_P(EachEntry, that_is_marked_invalid_is_not_taken_whatever_its_phase) {
    Trio trio(GetParam());
    RawEntry raw;
    raw.cqe.op_own = MLX5_CQE_INVALID << 4;
    trio.write(raw);
    EXPECT_FALSE(trio.poll());
}

TEST_P(EachEntry, of_nobody_is_no_answer_and_consumed) {
    Trio trio(GetParam());
    for (const std::uint8_t opcode :
         {MLX5_CQE_REQ, MLX5_CQE_RESP_SEND, MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_ERR}) {
        RawEntry raw;
        raw.cqe.op_own = static_cast<std::uint8_t>(opcode << 4);
        raw.cqe.srqn_uidx = htobe32(0x123456);
        raw.cqe.sop_drop_qpn = htobe32(0x123456);
        trio.write(raw);
        EXPECT_FALSE(trio.poll());
        trio.send(any_send(Opcode::write));
        EXPECT_TRUE(trio.answer(trio.of_send()));
    }
    EXPECT_EQ(trio.strays(), 4u);
}

std::string kind_name(const testing::TestParamInfo<Kind>& kind) {
    return "of_" + std::to_string(kind.param.entry_bytes) + "_bytes_" +
           (kind.param.shared ? "shared" : "own") + "_receives";
}
INSTANTIATE_TEST_SUITE_P(Libmlx5, EachEntry,
                         testing::Values(Kind{64, false}, Kind{64, true}, Kind{128, false},
                                         Kind{128, true}),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(Libmlx5, EntryOfOwnReceives,
                         testing::Values(Kind{64, false}, Kind{128, false}), kind_name);
INSTANTIATE_TEST_SUITE_P(Libmlx5, SmallEntry, testing::Values(Kind{64, false}, Kind{64, true}),
                         kind_name);

}  // namespace
}  // namespace verbatim::interop
