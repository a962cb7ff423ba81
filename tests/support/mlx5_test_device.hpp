// A tiny mlx5 device for tests of the data path: owns the memory of one queue pair and its
// completion queue, reads WQEs out of the ring and writes CQEs when the test says so. It decodes
// with rdma-core's structures and never with ours, so that an error in our formats cannot cancel
// itself out, and a second time by the tables of mlx5_prm.hpp: both must find the same.
#pragma once

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <mlx5_seen_wqe.hpp>
#include <mlx5_strict_register.hpp>
#include <sanitized.hpp>
#include <verbatim/driver/queue_view.hpp>

namespace verbatim::mlx5::test {

// Zeroed page-aligned memory of exactly this size, so that AddressSanitizer sees a byte too far;
// without it, a guard behind the end that fails the test if it was written.
class Pages {
  public:
    explicit Pages(std::size_t bytes)
        : memory_(static_cast<std::byte*>(
              ::operator new (bytes + kGuardBytes, std::align_val_t{4096}))),
          bytes_(bytes) {
        std::memset(memory_, 0, bytes);
        std::memset(memory_ + bytes, kGuard, kGuardBytes);
    }
    ~Pages() {
        for (std::size_t i = bytes_; i < bytes_ + kGuardBytes; ++i) {
            if (memory_[i] == std::byte{kGuard}) continue;
            ADD_FAILURE() << "a store " << i - bytes_ << " bytes behind the end of the memory";
            break;
        }
        ::operator delete (memory_, std::align_val_t{4096});
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::byte* data() const { return memory_; }
    std::size_t size() const { return bytes_; }

  private:
    static constexpr std::size_t kGuardBytes = verbatim::test::kSanitized ? 0 : 4096;
    static constexpr std::uint8_t kGuard = 0x5a;

    std::byte* memory_;
    std::size_t bytes_;
};

struct DeviceOptions {
    std::uint32_t send_blocks = 16;
    std::uint32_t receive_entries = 8;
    std::uint32_t receive_stride_log2 = 5;
    std::uint32_t completion_entries = 64;
    std::uint32_t entry_bytes = 64;
    std::uint32_t blueflame_bytes = 256;
    std::uint32_t max_inline_bytes = 700;
    std::uint32_t max_send_elements = 40;
    std::uint32_t max_receive_elements = 2;
    std::uint32_t number = 0x00abcd;
    bool masked_atomics = true;
    bool atomics = true;
    std::uint32_t big_endian_results = 0;  // results are left as the test leaves them
    bool strict_doorbells = true;          // checks every doorbell; false: no hook but the test's
};

class TestDevice {
  public:
    explicit TestDevice(DeviceOptions options = {})
        : options_(options),
          ring_(std::size_t{options.send_blocks} * 64),
          receive_ring_(std::size_t{options.receive_entries} << options.receive_stride_log2),
          completions_(std::size_t{options.completion_entries} * options.entry_bytes),
          registers_(4096) {
        for (std::uint32_t i = 0; i < options.completion_entries; ++i) {
            cqe_at(i)->op_own = MLX5_CQE_INVALID << 4;
        }
        std::memset(registers_.data(), static_cast<int>(StrictRegister::kUnwritten),
                    registers_.size());
    }
    // Views point here.
    TestDevice(const TestDevice&) = delete;
    TestDevice& operator=(const TestDevice&) = delete;

    QueuePairView queue_pair() {
        QueuePairView view;
        view.send_buffer = ring_.data();
        view.send_blocks = options_.send_blocks;
        view.receive_buffer = receive_ring_.data();
        view.receive_entries = options_.receive_entries;
        view.receive_stride_log2 = options_.receive_stride_log2;
        view.doorbell_record = records_.data();
        view.doorbell_register = registers_.data() + 0x800;
        view.blueflame_bytes = options_.blueflame_bytes;
        view.number = options_.number;
        view.max_inline_bytes = options_.max_inline_bytes;
        view.max_send_elements = options_.max_send_elements;
        view.max_receive_elements = options_.max_receive_elements;
        view.masked_atomics = options_.masked_atomics;
        view.atomics = options_.atomics;
        view.big_endian_results = options_.big_endian_results;
        view.doorbell_hook =
            options_.strict_doorbells ? DoorbellHook{check_doorbell, this} : doorbell_hook;
        return view;
    }
    CompletionQueueView completion_queue() {
        CompletionQueueView view;
        view.buffer = completions_.data();
        view.entries = options_.completion_entries;
        view.entry_bytes = options_.entry_bytes;
        view.doorbell_record = completion_records_.data();
        view.number = 3;
        view.progress_hook = progress_hook;
        return view;
    }
    // Put into the views made after they were set. A strict device looks at the doorbell first.
    DoorbellHook doorbell_hook;
    ProgressHook progress_hook;

    // -- What the device sees --
    std::uint16_t send_record() const {
        // Each word is read once: the driver may post meanwhile.
        const std::array<std::uint32_t, 2> records{
            __atomic_load_n(&records_[MLX5_RCV_DBR], __ATOMIC_ACQUIRE), raw_send_record()};
        static_assert(MLX5_RCV_DBR == 0 && MLX5_SND_DBR == 1);
        const auto counter = static_cast<std::uint16_t>(be32toh(records[MLX5_SND_DBR]));
        EXPECT_EQ(prm::send_counter(std::as_bytes(std::span(records))), counter);
        return counter;
    }
    std::uint32_t raw_send_record() const {
        return __atomic_load_n(&records_[MLX5_SND_DBR], __ATOMIC_ACQUIRE);
    }
    // All 32 bits: those above the counter are reserved.
    std::uint32_t receive_record() const {
        const std::uint32_t raw = __atomic_load_n(&records_[MLX5_RCV_DBR], __ATOMIC_ACQUIRE);
        EXPECT_EQ(prm::receive_counter(std::as_bytes(std::span(&raw, 1))), be32toh(raw));
        return be32toh(raw);
    }
    std::uint32_t consumer_record() const {
        const std::uint32_t raw = __atomic_load_n(&completion_records_[0], __ATOMIC_ACQUIRE);
        EXPECT_EQ(prm::consumer_index(std::as_bytes(std::span(&raw, 1))), be32toh(raw));
        return be32toh(raw);
    }
    const std::byte* register_half(int half) const {
        return registers_.data() + 0x800 +
               static_cast<std::size_t>(half) * options_.blueflame_bytes;
    }
    std::byte* ring() const { return ring_.data(); }
    std::size_t ring_bytes() const { return ring_.size(); }
    const std::byte* receive_ring() const { return receive_ring_.data(); }

    // The WQEs rung for since the last call, in order. Throws where the ring makes no sense.
    std::vector<SeenWqe> fetch() {
        std::vector<SeenWqe> seen;
        while (head_ != send_record()) {
            seen.push_back(wqe_at(head_));
            head_ = static_cast<std::uint16_t>(head_ + seen.back().blocks());
            if (static_cast<std::uint16_t>(send_record() - head_) > options_.send_blocks) {
                throw std::runtime_error("a WQE reaches beyond the doorbell record");
            }
        }
        return seen;
    }
    void reset() {
        head_ = 0;
        received_ = 0;
        strict_.reset();
    }

    SeenWqe wqe_at(std::uint16_t index) const;

    // -- What the device does --
    void complete(const SeenWqe& wqe, std::uint32_t bytes = 0, std::uint8_t format = 0) {
        mlx5_cqe64 cqe{};
        cqe.sop_drop_qpn = htobe32(std::uint32_t{wqe.opcode} << 24 | options_.number);
        cqe.wqe_counter = htobe16(wqe.index);
        cqe.byte_cnt = htobe32(bytes);
        write(cqe, MLX5_CQE_REQ, format);
    }
    void fail(const SeenWqe& wqe, std::uint8_t syndrome, std::uint8_t vendor = 0) {
        mlx5_cqe64 cqe{};
        cqe.sop_drop_qpn = htobe32(std::uint32_t{wqe.opcode} << 24 | options_.number);
        cqe.wqe_counter = htobe16(wqe.index);
        set_syndrome(cqe, syndrome, vendor);
        write(cqe, MLX5_CQE_REQ_ERR);
    }
    struct Arrival {
        std::uint8_t opcode = MLX5_CQE_RESP_SEND;
        std::uint32_t bytes = 0;
        std::uint32_t immediate = 0;
        std::uint8_t format = 0;
    };
    // Consumes the oldest posted receive.
    void arrive(const Arrival& arrival) {
        mlx5_cqe64 cqe = receive_cqe();
        cqe.byte_cnt = htobe32(arrival.bytes);
        cqe.imm_inval_pkey = htobe32(arrival.immediate);
        write(cqe, arrival.opcode, arrival.format);
    }
    void flush_receive(std::uint8_t syndrome) {
        mlx5_cqe64 cqe = receive_cqe();
        set_syndrome(cqe, syndrome, 0);
        write(cqe, MLX5_CQE_RESP_ERR);
    }
    std::uint16_t received() const { return received_; }

    // Any CQE at all, at the producer's place with the right owner phase.
    void write(mlx5_cqe64 cqe, std::uint8_t opcode, std::uint8_t format = 0) {
        const bool owner = (produced_ & options_.completion_entries) != 0;
        cqe.op_own = static_cast<std::uint8_t>(opcode << 4 | format | (owner ? 1 : 0));
        if ((format & MLX5_INLINE_SCATTER_32) != 0) std::memcpy(&cqe, scatter.data(), 32);
        mlx5_cqe64* to = cqe_at(produced_);
        if ((format & MLX5_INLINE_SCATTER_64) != 0) {
            std::memcpy(reinterpret_cast<std::byte*>(to) - 64, scatter.data(), 64);
        }
        expect_same_entry(to, cqe);
        std::memcpy(to, &cqe, offsetof(mlx5_cqe64, op_own));
        __atomic_store_n(&to->op_own, cqe.op_own, __ATOMIC_RELEASE);
        ++produced_;
    }
    std::uint32_t produced() const { return produced_; }
    std::array<std::byte, 64> scatter{};  // what inline-scatter CQEs carry

  private:
    static void check_doorbell(void* context, const volatile void* half) noexcept {
        auto& self = *static_cast<TestDevice*>(context);
        self.strict_.check(self.queue_pair(), half);
        if (self.doorbell_hook.call != nullptr)
            self.doorbell_hook.call(self.doorbell_hook.context, half);
    }
    // What rdma-core's structure says is what the manual's tables find there.
    void expect_same_entry(const mlx5_cqe64* place, const mlx5_cqe64& cqe) const {
        std::array<std::byte, 128> room;
        const std::span<std::byte> entry = std::span(room).first(options_.entry_bytes);
        const std::size_t before = options_.entry_bytes - sizeof cqe;
        std::memcpy(entry.data(), reinterpret_cast<const std::byte*>(place) - before, before);
        std::memcpy(entry.data() + before, &cqe, sizeof cqe);
        const prm::Completion seen = prm::describe_completion(entry);
        EXPECT_EQ(seen.opcode << 4 | seen.format << 2 | (seen.solicited ? 2U : 0U) |
                      (seen.owner ? 1U : 0U),
                  cqe.op_own);
        EXPECT_EQ(seen.shared_or_user, be32toh(cqe.srqn_uidx) & 0xffffff);
        EXPECT_EQ(seen.immediate, be32toh(cqe.imm_inval_pkey));
        EXPECT_EQ(seen.byte_count, be32toh(cqe.byte_cnt));
        EXPECT_EQ(seen.send_opcode << 24 | seen.number, be32toh(cqe.sop_drop_qpn));
        EXPECT_EQ(seen.counter, be16toh(cqe.wqe_counter));
        mlx5_err_cqe error;
        std::memcpy(&error, &cqe, sizeof error);
        EXPECT_EQ(seen.syndrome, error.syndrome);
        EXPECT_EQ(seen.vendor_syndrome, error.vendor_err_synd);
        if (seen.data.empty()) return;
        EXPECT_EQ(std::memcmp(seen.data.data(), scatter.data(), seen.data.size()), 0);
    }
    mlx5_cqe64* cqe_at(std::uint32_t counter) const {
        std::byte* entry =
            completions_.data() +
            std::size_t{counter % options_.completion_entries} * options_.entry_bytes;
        return reinterpret_cast<mlx5_cqe64*>(entry + options_.entry_bytes - sizeof(mlx5_cqe64));
    }
    mlx5_cqe64 receive_cqe() {
        mlx5_cqe64 cqe{};
        cqe.sop_drop_qpn = htobe32(options_.number);
        cqe.wqe_counter = htobe16(received_++);
        return cqe;
    }
    static void set_syndrome(mlx5_cqe64& cqe, std::uint8_t syndrome, std::uint8_t vendor) {
        mlx5_err_cqe error;
        std::memcpy(&error, &cqe, sizeof error);
        error.syndrome = syndrome;
        error.vendor_err_synd = vendor;
        std::memcpy(&cqe, &error, sizeof error);
    }

    DeviceOptions options_;
    Pages ring_, receive_ring_, completions_, registers_;
    alignas(64) std::array<std::uint32_t, 2> records_{};
    alignas(64) std::array<std::uint32_t, 2> completion_records_{};
    std::uint16_t head_ = 0;
    std::uint16_t received_ = 0;
    std::uint32_t produced_ = 0;
    StrictRegister strict_;
};

inline SeenWqe TestDevice::wqe_at(std::uint16_t index) const {
    SeenWqe seen;
    mlx5_wqe_ctrl_seg control;
    const std::size_t start = std::size_t{index % options_.send_blocks} * 64;
    std::memcpy(&control, ring_.data() + start, sizeof control);
    seen.index = static_cast<std::uint16_t>(be32toh(control.opmod_idx_opcode) >> 8);
    seen.opcode = static_cast<std::uint8_t>(be32toh(control.opmod_idx_opcode));
    seen.modifier = static_cast<std::uint8_t>(be32toh(control.opmod_idx_opcode) >> 24);
    seen.number = be32toh(control.qpn_ds) >> 8;
    seen.units = be32toh(control.qpn_ds) & 0x3f;
    seen.flags = control.fm_ce_se;
    seen.immediate = be32toh(control.imm);
    if (seen.index != index || seen.number != options_.number || seen.units == 0) {
        throw std::runtime_error("no WQE of this queue at " + std::to_string(index));
    }
    for (std::size_t i = 0; i < std::size_t{seen.units} * 16; ++i) {
        seen.bytes.push_back(ring_.data()[(start + i) % ring_.size()]);
    }
    take_payload(seen);
    seen.described = prm::describe_send(seen.bytes, prm::Service::connected);
    if (const std::string what = disagreement(seen); !what.empty())
        throw std::runtime_error("two descriptions of the WQE at " + std::to_string(index) +
                                 " disagree: " + what);
    return seen;
}

}  // namespace verbatim::mlx5::test
