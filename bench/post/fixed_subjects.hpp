// Posts of a shape known at compile time, by either copy strategy, one by one and in lists.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "operation.hpp"
#include "parked_device.hpp"
#include "subjects.hpp"

namespace verbatim::bench {

// A refused post would be measured as a fast one.
inline void must(Errc error) {
    if (error != Errc::ok) std::abort();
}

// What the completion of the last operation of a batch, of `blocks` blocks, does.
inline void retire_all(mlx5::SendRing& queue, std::uint64_t posted, std::uint32_t blocks) {
    if (!queue.retire(static_cast<std::uint16_t>((posted - 1) * blocks))) std::abort();
}

// What varies from operation to operation of a case, as fixed shapes take it.
template <class Payload>
struct Varying;
template <std::uint32_t kBytes>
struct Varying<mlx5::Inline<kBytes>> {
    std::array<std::byte, kBytes> payload{};
    [[gnu::always_inline]] auto number(std::uint64_t i) {
        if constexpr (kBytes == 8) {
            return i;
        } else {
            std::memcpy(payload.data(), &i, sizeof i);
            return static_cast<const std::byte*>(payload.data());
        }
    }
};
template <std::uint32_t kCount>
struct Varying<mlx5::Gather<kCount>> {
    [[gnu::always_inline]] auto number(std::uint64_t i) {
        return [first = local_address(i)](std::uint32_t k) { return first + k * kElementBytes; };
    }
};

template <std::uint32_t kCount>
struct Varying<mlx5::Elements<kCount>> {
    [[gnu::always_inline]] mlx5::Unchanged number(std::uint64_t) { return {}; }
};

// The image is copied to the ring and to the register.
template <mlx5::Opcode kOpcode, class Payload>
struct Copied {
    using Shape = mlx5::FixedShape<kOpcode, Payload>;

    explicit Copied(Operation& operation) : prepared(queue, operation.number(0, true)) {}
    void retire(std::uint64_t posted) { retire_all(queue, posted, Shape::kBlocks); }

    ParkedDevice device;
    mlx5::SendQueue queue{device.view()};
    mlx5::Prepared<kOpcode, Payload> prepared;
};

// Slots are kept prebuilt and patched.
template <mlx5::Opcode kOpcode, class Payload>
struct InPlace {
    using Shape = mlx5::FixedShape<kOpcode, Payload>;

    explicit InPlace(Operation& operation) : prepared(device.view(), operation.number(0, true)) {}
    void retire(std::uint64_t posted) {
        constexpr std::uint32_t kSlot = std::bit_ceil(Shape::kBlocks);
        const std::uint64_t counter = posted * kSlot - Shape::kBlocks;
        if (!prepared.retire(static_cast<std::uint16_t>(counter))) std::abort();
    }

    ParkedDevice device;
    mlx5::PrebuiltQueue<kOpcode, Payload> prepared;
};

template <class Posting, class Payload>
class FixedSubject final : public PostSubject {
  public:
    explicit FixedSubject(const PostCase& of) : operation_(of), posting_(operation_) {}
    void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t batch = std::min(kBatch, end - posted_);
            auto& prepared = posting_.prepared;
            prepared.set_signaled(false);
            post(prepared, posted_, posted_ + batch - 1);
            prepared.set_signaled(true);
            post(prepared, posted_ + batch - 1, posted_ + batch);
            posted_ += batch;
            posting_.retire(posted_);
        }
    }

  private:
    template <class Prepared>
    [[gnu::noinline]] void post(Prepared& prepared, std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t i = from; i != to; ++i)
            if constexpr (Posting::Shape::kNamesRemoteMemory)
                must(prepared.post(i, remote_address(i), varying_.number(i)));
            else
                must(prepared.post(i, varying_.number(i)));
    }
    Operation operation_;
    Posting posting_;
    Varying<Payload> varying_;
    std::uint64_t posted_ = 0;
};

// Lists of `Size` under one doorbell; the last one is signaled.
template <class Posting, class Payload, std::uint32_t Size>
class FixedListSubject final : public PostSubject {
  public:
    explicit FixedListSubject(const PostCase& of) : operation_(of), posting_(operation_) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ < end;) {
            must(posting_.prepared.post_list(
                posted_, Size, [this, first = posted_](std::uint32_t i) {
                    return mlx5::Listed{remote_address(first + i), varying_[i].number(first + i)};
                }));
            posted_ += Size;
            posting_.retire(posted_);
        }
    }

  private:
    Operation operation_;
    Posting posting_;
    std::array<Varying<Payload>, Size> varying_;  // the payloads of a list lie side by side
    std::uint64_t posted_ = 0;
};

}  // namespace verbatim::bench
