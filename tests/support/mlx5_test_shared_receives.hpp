// The device's side of a shared receive queue, for tests of the data path: owns its memory, follows
// the links with rdma-core's structures and never with ours, and lets a TestDevice complete what
// was taken, in any order.
#pragma once

#include <stdexcept>

#include "mlx5_test_device.hpp"

namespace verbatim::mlx5::test {

struct SharedReceiveOptions {
    std::uint32_t entries = 8;
    std::uint32_t stride_log2 = 6;
    std::uint32_t max_elements = 3;
};

class TestSharedReceives {
  public:
    explicit TestSharedReceives(SharedReceiveOptions options = {})
        : options_(options), ring_(std::size_t{options.entries} << options.stride_log2) {
        // Memory that somebody used before: the driver must not count on zeros.
        std::memset(ring_.data(), 0xee, ring_.size());
    }

    SharedReceiveQueueView view() {
        SharedReceiveQueueView view;
        view.buffer = ring_.data();
        view.entries = options_.entries;
        view.stride_log2 = options_.stride_log2;
        view.doorbell_record = record_.data();
        view.number = 0x51;
        view.max_elements = options_.max_elements;
        return view;
    }

    std::uint16_t record() const {
        const std::uint32_t all = be32toh(__atomic_load_n(&record_[0], __ATOMIC_ACQUIRE));
        EXPECT_EQ(prm::shared_counter(std::as_bytes(std::span(record_))), all);
        return static_cast<std::uint16_t>(all);
    }
    std::uint16_t available() const { return static_cast<std::uint16_t>(record() - taken_); }

    // The index of the next posted entry, which is the device's from now on; nothing where there is
    // none. Throws where the list makes no sense.
    std::optional<std::uint16_t> take() {
        if (available() == 0) return std::nullopt;
        if (available() >= options_.entries)
            throw std::runtime_error("more entries are posted than can be");
        mlx5_wqe_srq_next_seg link;
        std::memcpy(&link, at(head_), sizeof link);
        const std::uint16_t index = head_;
        head_ = be16toh(link.next_wqe_index);
        const prm::ReceiveWqe seen = prm::describe_receive({at(index), sizeof link}, true);
        EXPECT_EQ(seen.next_index, head_);
        EXPECT_TRUE(seen.complaints.empty()) << seen.complaints.front();
        if (head_ >= options_.entries) throw std::runtime_error("a link leads out of the queue");
        ++taken_;
        return index;
    }

    // The entry's elements, up to its end or the invalid key. Both descriptions must find them.
    std::vector<mlx5_wqe_data_seg> elements(std::uint16_t index) const {
        const auto result = by_structures(index);
        const auto seen =
            prm::describe_receive({at(index), std::size_t{1} << options_.stride_log2}, true);
        EXPECT_EQ(seen.pieces.size(), result.size());
        for (std::size_t i = 0; i < std::min(seen.pieces.size(), result.size()); ++i) {
            EXPECT_EQ(seen.pieces[i].address, be64toh(result[i].addr));
            EXPECT_EQ(seen.pieces[i].bytes, be32toh(result[i].byte_count));
            EXPECT_EQ(seen.pieces[i].key, be32toh(result[i].lkey));
        }
        return result;
    }
    std::vector<mlx5_wqe_data_seg> by_structures(std::uint16_t index) const {
        std::vector<mlx5_wqe_data_seg> result;
        const std::size_t stride = std::size_t{1} << options_.stride_log2;
        for (std::size_t offset = sizeof(mlx5_wqe_srq_next_seg); offset < stride; offset += 16) {
            mlx5_wqe_data_seg segment;
            std::memcpy(&segment, at(index) + offset, sizeof segment);
            if (be32toh(segment.lkey) == static_cast<std::uint32_t>(MLX5_INVALID_LKEY)) break;
            result.push_back(segment);
        }
        return result;
    }

    // CQEs of queue pair `number` for entry `index`.
    static void arrive(TestDevice& device, std::uint32_t number, std::uint16_t index,
                       const TestDevice::Arrival& arrival = {}) {
        mlx5_cqe64 cqe = named(number, index);
        cqe.byte_cnt = htobe32(arrival.bytes);
        cqe.imm_inval_pkey = htobe32(arrival.immediate);
        device.write(cqe, arrival.opcode, arrival.format);
    }
    static void fail(TestDevice& device, std::uint32_t number, std::uint16_t index,
                     std::uint8_t syndrome) {
        const mlx5_cqe64 cqe = named(number, index);
        mlx5_err_cqe error;
        std::memcpy(&error, &cqe, sizeof error);
        error.syndrome = syndrome;
        mlx5_cqe64 written;
        std::memcpy(&written, &error, sizeof written);
        device.write(written, MLX5_CQE_RESP_ERR);
    }

  private:
    const std::byte* at(std::uint16_t index) const {
        return ring_.data() + (std::size_t{index} << options_.stride_log2);
    }
    static mlx5_cqe64 named(std::uint32_t number, std::uint16_t index) {
        mlx5_cqe64 cqe{};
        cqe.sop_drop_qpn = htobe32(number);
        cqe.srqn_uidx = htobe32(0x51);
        cqe.wqe_counter = htobe16(index);
        return cqe;
    }

    SharedReceiveOptions options_;
    Pages ring_;
    alignas(64) std::array<std::uint32_t, 1> record_{};
    std::uint16_t head_ = 0;   // next entry to take
    std::uint16_t taken_ = 0;  // counter
};

}  // namespace verbatim::mlx5::test
