// How each subject posts. The loops are not inlined, so that callgrind sees the same code as the
// clock.
#include "subjects.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "operation.hpp"
#include "parked_device.hpp"

namespace verbatim::bench {
namespace {

// A refused post would be measured as a fast one.
void must(Errc error) {
    if (error != Errc::ok) std::abort();
}

// What the completion of the last operation of a batch, of `blocks` blocks, does.
void retire_all(mlx5::SendQueue& queue, std::uint64_t posted, std::uint32_t blocks) {
    if (!queue.retire(static_cast<std::uint16_t>((posted - 1) * blocks))) std::abort();
}

// The operation made for the smallest write.
class PreparedWrite8Subject final : public PostSubject {
  public:
    void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t batch = std::min(kBatch, end - posted_);
            write_.set_signaled(false);
            post(posted_, posted_ + batch - 1);
            write_.set_signaled(true);
            post(posted_ + batch - 1, posted_ + batch);
            posted_ += batch;
            retire_all(queue_, posted_, 1);
        }
    }

  private:
    [[gnu::noinline]] void post(std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t i = from; i != to; ++i) must(write_.post(i, remote_address(i), i));
    }

    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    mlx5::PreparedWrite8 write_{queue_, {kRemoteAddress, kRemoteKey}};
    std::uint64_t posted_ = 0;
};

// Runs batches: the last operation of each is signaled and retires all.
template <class Post>
[[gnu::always_inline]] inline void run_batches(std::uint64_t& posted, std::uint64_t count,
                                               mlx5::SendQueue& queue, std::uint32_t blocks,
                                               Post&& post) {
    for (const std::uint64_t end = posted + count; posted != end;) {
        const std::uint64_t last = std::min(posted + kBatch, end) - 1;
        for (; posted != last; ++posted) post(posted, false);
        post(posted++, true);
        retire_all(queue, posted, blocks);
    }
}

// Built from scratch.
class FreshSubject final : public PostSubject {
  public:
    explicit FreshSubject(const PostCase& of) : operation_(of) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        run_batches(posted_, count, queue_, blocks_, [this](std::uint64_t i, bool signaled) {
            must(queue_.post(operation_.number(i, signaled)));
        });
    }

  private:
    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    Operation operation_;
    std::uint32_t blocks_ = operation_.blocks();
    std::uint64_t posted_ = 0;
};

[[gnu::always_inline]] inline Errc set_memory(mlx5::Prepared& prepared, std::uint32_t element,
                                              std::uint64_t address) {
    return prepared.set_element(element, address, kElementBytes);
}
[[gnu::always_inline]] inline Errc set_memory(mlx5::WqeImage& image, std::uint32_t element,
                                              std::uint64_t address) {
    return image.set_element(element, {address, kElementBytes, kLocalKey});
}
// Makes operation number `i` of what was prepared.
template <class Prepared>
[[gnu::always_inline]] inline void patch(Prepared& prepared, Operation& operation,
                                         std::uint64_t i) {
    if (operation.has_remote_address()) must(prepared.set_remote_address(remote_address(i)));
    if (operation.has_payload()) must(prepared.set_inline_payload(operation.payload(i)));
    for (std::uint32_t k = 0; k < operation.elements(); ++k)
        must(set_memory(prepared, k, local_address(i + k)));
}

// Prepared once, patched before each post.
class PreparedSubject final : public PostSubject {
  public:
    explicit PreparedSubject(const PostCase& of) : operation_(of) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        run_batches(posted_, count, queue_, blocks_, [this](std::uint64_t i, bool signaled) {
            patch(prepared_, operation_, i);
            prepared_.set_signaled(signaled);
            must(prepared_.post(i));
        });
    }

  private:
    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    Operation operation_;
    std::uint32_t blocks_ = operation_.blocks();
    mlx5::Prepared prepared_{queue_, operation_.number(0, true)};
    std::uint64_t posted_ = 0;
};

// Lists of `Size` prepared operations under one doorbell; the last one is signaled.
template <std::uint64_t Size>
class ListSubject final : public PostSubject {
  public:
    explicit ListSubject(const PostCase& of) : operation_(of), list_(queue_, requests()) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        std::array<std::uint64_t, Size> ids;
        for (const std::uint64_t end = posted_ + count; posted_ < end;) {
            for (std::uint64_t k = 0; k < Size; ++k) {
                ids[k] = posted_ + k;
                patch(list_[k], operation_, posted_ + k);
            }
            must(list_.post(ids));
            posted_ += Size;
            retire_all(queue_, posted_, blocks_);
        }
    }

  private:
    std::vector<mlx5::WorkRequest> requests() {
        std::vector<mlx5::WorkRequest> all;
        for (std::uint64_t k = 0; k < Size; ++k) all.push_back(operation_.number(0, k == Size - 1));
        return all;
    }

    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    Operation operation_;
    std::uint32_t blocks_ = operation_.blocks();
    mlx5::PreparedList list_;
    std::uint64_t posted_ = 0;
};

// Lists of `Size` of the operation made for the smallest write.
template <std::uint32_t Size>
class Write8ListSubject final : public PostSubject {
  public:
    [[gnu::noinline]] void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ < end; posted_ += Size) {
            must(write_.post_list(posted_, Size, [first = posted_](std::uint32_t i) {
                return mlx5::PreparedWrite8::Write{remote_address(first + i), first + i};
            }));
            retire_all(queue_, posted_ + Size, 1);
        }
    }

  private:
    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    mlx5::PreparedWrite8 write_{queue_, {kRemoteAddress, kRemoteKey}};
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
std::unique_ptr<PostSubject> make(const PostCase& of) {
    if constexpr (std::is_constructible_v<Subject, const PostCase&>)
        return std::make_unique<Subject>(of);
    else
        return std::make_unique<Subject>();
}

}  // namespace

std::vector<NamedSubject> subjects() {
    std::vector<NamedSubject> all;
    for (const PostCase& of : kPostCases) {
        const bool smallest = &of == &kPostCases[0];
        all.push_back({&of, "verbatim.prepared",
                       smallest ? make<PreparedWrite8Subject> : make<PreparedSubject>});
        all.push_back({&of, "verbatim.list10",
                       smallest ? make<Write8ListSubject<10>> : make<ListSubject<10>>});
        all.push_back({&of, "verbatim.list32",
                       smallest ? make<Write8ListSubject<32>> : make<ListSubject<32>>});
        all.push_back({&of, "verbatim.fresh", make<FreshSubject>});
        all.push_back({&of, "libmlx5.ibv_post_send", make_libmlx5_post_send});
        all.push_back({&of, "libmlx5.ibv_wr", make_libmlx5_builder});
        if (smallest) all.push_back({&of, "floor", make<Floor>});
    }
    return all;
}

}  // namespace verbatim::bench
