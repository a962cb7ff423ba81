// Receive queues, shared or not: what ours writes is what libmlx5 writes for the same requests,
// byte for byte in the whole ring and the doorbell record.
#include <deque>
#include <random>

#include "sanitized.hpp"
#include "sides.hpp"

namespace verbatim::interop {
namespace {

using mlx5::Element;

struct Shape {
    bool shared;
    std::uint32_t requests, elements;
};

PairOptions options_of(const Shape& shape) {
    PairOptions options;
    options.receive_requests = shape.shared ? 0 : shape.requests;
    options.shared_requests = shape.shared ? shape.requests : 0;
    options.receive_elements = shape.elements;
    return options;
}

// Both queues, and the model of which entries are posted.
class ReceiveTwin {
  public:
    explicit ReceiveTwin(const Shape& shape)
        : options_(options_of(shape)), lib_(options_), ours_(lib_, options_) {
        for (std::uint32_t i = 0; i < lib_.receive_entries(); ++i)
            free_.push_back(static_cast<std::uint16_t>(i));
    }

    LibSide& lib() { return lib_; }
    OurSide& ours() { return ours_; }
    std::uint32_t entries() const { return lib_.receive_entries(); }
    std::uint32_t elements() const {
        return lib_.receive_stride() / 16 - (lib_.is_shared() ? 1 : 0);
    }
    // Entries that can be posted at once.
    std::uint32_t capacity() const { return entries() - (lib_.is_shared() ? 1 : 0); }
    std::size_t outstanding() const { return posted_.size(); }

    Receive any(std::uint32_t count) {
        Receive made{++id_, {}};
        for (std::uint32_t i = 0; i < count; ++i)
            made.elements.push_back({id_ << 20 | i << 12, static_cast<std::uint32_t>(1 + i + id_),
                                     static_cast<std::uint32_t>(0x1000 + id_ + i)});
        return made;
    }
    void post(std::span<const Receive> list) {
        ASSERT_EQ(lib_.receive(list), 0);
        ASSERT_EQ(ours_.receive(list), Errc::ok);
        const std::size_t before = posted_.size();
        note_posted(list.size());
        expect_same();
        for (std::size_t i = 0; i < list.size(); ++i)
            expect_describes(posted_[before + i], list[i].elements);
    }
    // What the manual's tables find in libmlx5's entry is what was asked for.
    void expect_describes(std::size_t entry, std::span<const Element> elements) {
        const std::size_t stride = lib_.receive_stride();
        const auto seen = prm::describe_receive(lib_.receive_ring().subspan(entry * stride, stride),
                                                lib_.is_shared());
        std::vector<prm::Piece> asked;
        for (const Element& one : elements)
            asked.push_back({one.address, one.bytes, one.local_key});
        EXPECT_TRUE(seen.pieces == asked && seen.complaints.empty()) << "entry " << entry;
    }
    void note_posted(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            posted_.push_back(free_.front());
            free_.pop_front();
        }
    }
    void expect_same() {
        EXPECT_EQ(ours_.receive_record(), lib_.receive_record()) << "doorbell record";
        const auto ours = ours_.receive_ring(), theirs = lib_.receive_ring();
        ASSERT_EQ(ours.size(), theirs.size());
        const auto differs = std::mismatch(ours.begin(), ours.end(), theirs.begin()).first;
        EXPECT_EQ(differs, ours.end()) << "entry " << (differs - ours.begin()) / stride() << " at "
                                       << (differs - ours.begin()) % stride();
    }
    // A message arrives in the i-th posted entry; of queues of its own always in the first.
    void arrive(std::size_t i) {
        RawEntry raw;
        raw.cqe.op_own = MLX5_CQE_RESP_SEND << 4;
        raw.cqe.sop_drop_qpn = htobe32(lib_.queues().pair->qp_num);
        raw.cqe.byte_cnt = htobe32(static_cast<std::uint32_t>(100 + i));
        raw.cqe.wqe_counter = htobe16(posted_[i]);
        lib_.write(raw);
        ours_.write(raw);
        ours_.expect_same(lib_.poll());
        free_.push_back(posted_[i]);
        posted_.erase(posted_.begin() + static_cast<std::ptrdiff_t>(i));
    }

  private:
    std::ptrdiff_t stride() const { return static_cast<std::ptrdiff_t>(lib_.receive_stride()); }

    PairOptions options_;
    LibSide lib_;
    OurSide ours_;
    std::uint64_t id_ = 0;
    std::deque<std::uint16_t> free_, posted_;  // in the device's order
};

class EachReceiveQueue : public testing::TestWithParam<Shape> {};

TEST_P(EachReceiveQueue, writes_every_number_of_elements_at_every_place_alike) {
    ReceiveTwin twin(GetParam());
    for (std::uint32_t lap = 0; lap < 2 * (twin.elements() + 1) && !HasFailure(); ++lap)
        for (std::uint32_t place = 0; place < twin.entries(); ++place) {
            // From lap to lap, so that each place has had longer and shorter lists before.
            const Receive one = twin.any((place + lap * (lap + 1) / 2) % (twin.elements() + 1));
            twin.post({&one, 1});
            twin.arrive(0);
        }
}

TEST_P(EachReceiveQueue, writes_lists_of_every_length_alike_and_is_full_at_every_place) {
    ReceiveTwin twin(GetParam());
    for (std::uint32_t start = 0; start < twin.entries() && !HasFailure(); ++start)
        for (std::uint32_t length = 1; length <= twin.capacity(); ++length) {
            std::vector<Receive> list;
            for (std::uint32_t i = 0; i < length; ++i)
                list.push_back(twin.any((start + i) % (twin.elements() + 1)));
            twin.post(list);
            while (twin.outstanding() < twin.capacity()) {
                const Receive one = twin.any(1);
                twin.post({&one, 1});
            }
            const Receive more = twin.any(1);
            EXPECT_EQ(twin.lib().receive({&more, 1}), ENOMEM);
            EXPECT_EQ(twin.ours().receive({&more, 1}), Errc::would_block);
            twin.expect_same();
            while (twin.outstanding() > 0) twin.arrive(0);
            const Receive shift = twin.any(1);
            if (length == twin.capacity()) twin.post({&shift, 1}), twin.arrive(0);
        }
}

TEST_P(EachReceiveQueue, refuses_more_elements_than_an_entry_has_as_libmlx5_does) {
    ReceiveTwin twin(GetParam());
    const Receive longest = twin.any(twin.elements()), longer = twin.any(twin.elements() + 1);
    EXPECT_EQ(twin.lib().receive({&longer, 1}), EINVAL);
    EXPECT_EQ(twin.ours().receive({&longer, 1}), Errc::invalid_argument);
    twin.expect_same();
    twin.post({&longest, 1});
}

TEST_P(EachReceiveQueue, counts_in_its_record_as_libmlx5_does_beyond_16_bits) {
    if (verbatim::test::kSanitized && GetParam().requests < 30)
        GTEST_SKIP() << "slow; runs in every other build";
    ReceiveTwin twin(GetParam());
    for (std::uint32_t count = 0; count < 0x10100 && !HasFailure(); count += twin.capacity()) {
        std::vector<Receive> list;
        for (std::uint32_t i = 0; i < twin.capacity(); ++i) list.push_back(twin.any(1));
        twin.post(list);
        while (twin.outstanding() > 0) twin.arrive(0);
    }
}

std::string shape_name(const testing::TestParamInfo<Shape>& shape) {
    return std::string(shape.param.shared ? "shared" : "own") + "_requests_" +
           std::to_string(shape.param.requests) + "_elements_" +
           std::to_string(shape.param.elements);
}
// The smallest there are, and others. A shared queue's entry has a link before its elements.
INSTANTIATE_TEST_SUITE_P(Libmlx5, EachReceiveQueue,
                         testing::Values(Shape{false, 1, 1}, Shape{false, 4, 1}, Shape{false, 8, 2},
                                         Shape{false, 16, 7}, Shape{false, 4, 30},
                                         Shape{true, 1, 1}, Shape{true, 7, 1}, Shape{true, 3, 3},
                                         Shape{true, 15, 7}),
                         shape_name);

TEST(Libmlx5, shared_receives_that_finish_in_any_order_are_linked_alike) {
    ReceiveTwin twin({true, 15, 3});
    std::mt19937 random(1);
    for (int round = 0; round < 20'000 && !HasFailure(); ++round) {
        const std::size_t room = twin.capacity() - twin.outstanding();
        if (room != 0 && random() % 2 == 0) {
            std::vector<Receive> list;
            for (std::size_t i = 1 + random() % room; i > 0; --i)
                list.push_back(
                    twin.any(static_cast<std::uint32_t>(random()) % (twin.elements() + 1)));
            twin.post(list);
        } else if (twin.outstanding() != 0) {
            twin.arrive(random() % twin.outstanding());
            twin.expect_same();  // links
        }
    }
}

// What the device finds: it starts at entry 0, follows the links and reads elements up to the end
// or the invalid key.
class Follower {
  public:
    std::string next(std::span<const std::byte> ring, std::uint32_t stride) {
        const auto entry = ring.subspan(std::size_t{at_} * stride, stride);
        mlx5_wqe_srq_next_seg link;
        std::memcpy(&link, entry.data(), sizeof link);
        std::string text = std::to_string(at_) + ":";
        at_ = be16toh(link.next_wqe_index);
        for (std::size_t unit = sizeof link; unit < stride; unit += 16) {
            mlx5_wqe_data_seg segment;
            std::memcpy(&segment, entry.data() + unit, sizeof segment);
            if (segment.lkey == htobe32(MLX5_INVALID_LKEY)) break;
            text += " " + std::to_string(be64toh(segment.addr)) + "+" +
                    std::to_string(be32toh(segment.byte_count)) + "/" +
                    std::to_string(be32toh(segment.lkey));
        }
        return text;
    }

  private:
    std::uint16_t at_ = 0;
};

// libmlx5 has nothing like it, and writes each entry again.
TEST(Libmlx5, prebuilt_shared_receives_are_to_the_device_what_libmlx5_posts_afresh) {
    ReceiveTwin twin({true, 7, 3});
    mlx5::SharedReceiveQueue& ours = twin.ours().shared();
    std::vector<Receive> contents;  // by entry
    std::vector<mlx5::ReceiveRequest> requests;
    for (std::uint32_t i = 0; i < twin.entries(); ++i)
        contents.push_back(twin.any(i % (twin.elements() + 1)));
    for (const Receive& one : contents) requests.push_back({one.id, one.elements});
    ASSERT_EQ(ours.prebuild(requests), Errc::ok);
    std::mt19937 random(1);
    Follower of_ours, of_theirs;
    std::deque<std::uint16_t> order;  // free entries, in the list's order
    for (std::uint32_t i = 0; i < twin.entries(); ++i)
        order.push_back(static_cast<std::uint16_t>(i));
    std::vector<std::uint16_t> posted;
    for (int round = 0; round < 5000 && !HasFailure(); ++round) {
        const auto count = static_cast<std::uint32_t>(random() % (order.size()));
        std::vector<Receive> list;
        for (std::uint32_t i = 0; i < count; ++i) {
            list.push_back(contents[order.front()]);
            posted.push_back(order.front());
            order.pop_front();
        }
        if (count != 0) {
            ASSERT_EQ(twin.lib().receive(list), 0);
        }
        ASSERT_EQ(ours.repost(count), Errc::ok);
        twin.note_posted(count);
        EXPECT_EQ(twin.ours().receive_record(), twin.lib().receive_record());
        for (std::uint32_t i = 0; i < count; ++i)
            EXPECT_EQ(of_ours.next(twin.ours().receive_ring(), twin.lib().receive_stride()),
                      of_theirs.next(twin.lib().receive_ring(), twin.lib().receive_stride()));
        for (std::size_t left = random() % (posted.size() + 1); left > 0; --left) {
            const std::size_t i = random() % posted.size();
            twin.arrive(i);
            order.push_back(posted[i]);
            posted.erase(posted.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

std::uint32_t first_count(std::span<const std::byte> ring, std::size_t before) {
    mlx5_wqe_data_seg segment;
    std::memcpy(&segment, ring.data() + before, sizeof segment);
    return be32toh(segment.byte_count);
}

// The differences, each with its reason in docs/development.md.
TEST(Libmlx5, empty_and_largest_elements_are_the_known_differences_of_receives) {
    for (const bool shared : {false, true}) {
        ReceiveTwin twin({shared, 3, 3});
        const std::size_t before = shared ? sizeof(mlx5_wqe_srq_next_seg) : 0;
        Receive largest{1, {{0x1000, 1u << 31, 7}}};
        ASSERT_EQ(twin.lib().receive({&largest, 1}), 0);
        ASSERT_EQ(twin.ours().receive({&largest, 1}), Errc::ok);
        EXPECT_EQ(first_count(twin.lib().receive_ring(), before), 1u << 31);
        EXPECT_EQ(first_count(twin.ours().receive_ring(), before), 0u);
        largest.elements[0].bytes = 0;
        EXPECT_EQ(twin.lib().receive({&largest, 1}), 0);
        EXPECT_EQ(twin.ours().receive({&largest, 1}), Errc::invalid_argument);
    }
}

}  // namespace
}  // namespace verbatim::interop
