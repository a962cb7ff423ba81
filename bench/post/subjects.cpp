// How each subject posts. The loops are not inlined, so that callgrind sees the same code as the
// clock.
#include "subjects.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "parked_device.hpp"

namespace verbatim::bench {
namespace {

constexpr std::uint64_t kRemoteAddress = 0x7f0000000000;
constexpr std::uint32_t kRemoteKey = 0x1234;

// Address and payload of post number `i`: both differ from the post before.
constexpr std::uint64_t address_of(std::uint64_t i) { return kRemoteAddress + i * 8; }

// A refused post would be measured as a fast one.
void must(Errc error) {
    if (error != Errc::ok) std::abort();
}

// What the completion of the last post of a batch does.
void retire_up_to(mlx5::SendQueue& queue, std::uint64_t posted) {
    if (!queue.retire(static_cast<std::uint16_t>(posted - 1))) std::abort();
}

class PreparedSubject final : public PostSubject {
  public:
    void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t batch = std::min(kBatch, end - posted_);
            write_.set_signaled(false);
            post(posted_, posted_ + batch - 1);
            write_.set_signaled(true);
            post(posted_ + batch - 1, posted_ + batch);
            posted_ += batch;
            retire_up_to(queue_, posted_);
        }
    }

  private:
    [[gnu::noinline]] void post(std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t i = from; i != to; ++i) must(write_.post(i, address_of(i), i));
    }

    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    mlx5::PreparedWrite8 write_{queue_, {kRemoteAddress, kRemoteKey}};
    std::uint64_t posted_ = 0;
};

class FreshSubject final : public PostSubject {
  public:
    [[gnu::noinline]] void run(std::uint64_t count) override {
        const std::uint64_t end = posted_ + count;
        while (posted_ != end) {
            const std::uint64_t last = std::min(posted_ + kBatch, end) - 1;
            for (; posted_ != last; ++posted_) post(false);
            post(true);
            ++posted_;
            retire_up_to(queue_, posted_);
        }
    }

  private:
    [[gnu::always_inline]] void post(bool signaled) {
        mlx5::WorkRequest request;
        request.opcode = mlx5::Opcode::write;
        request.signaled = signaled;
        request.id = posted_;
        request.remote_address = address_of(posted_);
        request.remote_key = kRemoteKey;
        request.inline_payload = std::as_bytes(std::span(&posted_, 1));
        must(queue_.post(request));
    }

    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    std::uint64_t posted_ = 0;
};

// What no post can avoid: 64 bytes into the slot, the record, 64 bytes into the register, the two
// fences. Nothing is checked or remembered.
class Floor final : public PostSubject {
  public:
    [[gnu::noinline]] void run(std::uint64_t count) override {
        const mlx5::QueuePairView view = device_.view();
        auto* const record = view.doorbell_record + mlx5::kRecordSend;
        const mlx5::Block rest{};
        for (const std::uint64_t end = posted_ + count; posted_ != end; ++posted_) {
            mlx5::Block block = rest;
            block.quarter[0] = _mm_cvtsi64_si128(static_cast<long long>(posted_));
            block.store(view.send_buffer + posted_ % ParkedDevice::kBlocks * mlx5::kBlockBytes);
            __atomic_store_n(record, static_cast<std::uint32_t>(posted_), __ATOMIC_RELEASE);
            mlx5::store_fence();
            mlx5::write_register_block(
                view.doorbell_register + posted_ % 2 * ParkedDevice::kHalfBytes, block);
            mlx5::store_fence();
        }
    }

  private:
    ParkedDevice device_;
    std::uint64_t posted_ = 0;
};

template <typename Subject>
std::unique_ptr<PostSubject> make() {
    return std::make_unique<Subject>();
}

constexpr std::array<NamedSubject, 3> kSubjects{{
    {"verbatim.prepared", make<PreparedSubject>},
    {"verbatim.fresh", make<FreshSubject>},
    {"floor", make<Floor>},
}};

}  // namespace

std::span<const NamedSubject> subjects() { return kSubjects; }

}  // namespace verbatim::bench
