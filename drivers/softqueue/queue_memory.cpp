// Sizes and places of queues.
#include "queue_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/mlx5/formats.hpp>

#include "completion_ring.hpp"
#include "page.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::uint32_t kMaxSendBlocks = 32768;  // counters have 16 bits
constexpr std::uint32_t kMaxReceives = 32768;
constexpr std::uint32_t kMaxSharedReceives = 32767;  // and one that is always free
constexpr std::uint32_t kMaxSharedElements = mlx5::kMaxWqeUnits - 1;
constexpr std::uint32_t kMaxCompletions = 1U << 22;
constexpr std::uint32_t kMaxInlineBytes = mlx5::kMaxWqeUnits * mlx5::kUnitBytes - 36;

constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
    return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

void check(bool good, const char* what, std::uint64_t value, std::uint64_t limit) {
    if (good) return;
    throw Error(Errc::invalid_argument, "software NIC queue",
                fmt::format("{} is {}, at most {} is possible", what, value, limit),
                fmt::format("lower {}", what));
}

void plan_receives(const QueuePairOptions& options, mlx5::QueuePairView& view) {
    view.receive_entries = std::bit_ceil(std::max(options.receive_entries, 1U));
    view.max_receive_elements = std::max(options.max_receive_elements, 1U);
    const std::uint32_t stride =
        std::bit_ceil(view.max_receive_elements * std::uint32_t{sizeof(mlx5::DataSegment)});
    view.receive_stride_log2 = static_cast<std::uint32_t>(std::countr_zero(stride));
}

mlx5::SharedReceiveQueueView plan(const SharedReceiveQueueOptions& options, std::uint32_t number) {
    check(options.entries <= kMaxSharedReceives, "shared receive entries", options.entries,
          kMaxSharedReceives);
    check(options.max_elements <= kMaxSharedElements, "max_elements", options.max_elements,
          kMaxSharedElements);
    mlx5::SharedReceiveQueueView view;
    view.number = number;
    view.entries = std::bit_ceil(std::max(options.entries, 1U) + 1);
    view.max_elements = std::max(options.max_elements, 1U);
    const std::uint32_t stride =
        std::bit_ceil(std::uint32_t{sizeof(mlx5::SharedReceiveNextSegment)} +
                      view.max_elements * std::uint32_t{sizeof(mlx5::DataSegment)});
    view.stride_log2 = static_cast<std::uint32_t>(std::countr_zero(stride));
    return view;
}

// Plain sizes, before any memory exists.
mlx5::QueuePairView plan(const QueuePairOptions& options, std::uint32_t number) {
    check(options.send_blocks <= kMaxSendBlocks, "send_blocks", options.send_blocks,
          kMaxSendBlocks);
    check(options.receive_entries <= kMaxReceives, "receive_entries", options.receive_entries,
          kMaxReceives);
    check(options.max_inline_bytes <= kMaxInlineBytes, "max_inline_bytes", options.max_inline_bytes,
          kMaxInlineBytes);
    check(options.max_send_elements <= mlx5::kMaxWqeUnits - 3, "max_send_elements",
          options.max_send_elements, mlx5::kMaxWqeUnits - 3);
    check(options.max_receive_elements <= mlx5::kMaxWqeUnits, "max_receive_elements",
          options.max_receive_elements, mlx5::kMaxWqeUnits);
    mlx5::QueuePairView view;
    view.number = number;
    view.send_blocks = std::bit_ceil(std::max(options.send_blocks, 1U));
    if (options.shared_receives == nullptr) plan_receives(options, view);
    view.max_inline_bytes = options.max_inline_bytes;
    view.max_send_elements = options.max_send_elements;
    view.blueflame_bytes = kBlueFlameBytes;
    view.masked_atomics = true;
    return view;
}

// The register's two halves lie at a multiple of both, as drivers rely on.
constexpr std::size_t kRegisterBytes = std::size_t{2} * kBlueFlameBytes;
constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
    return (bytes + mlx5::kBlockBytes - 1) / mlx5::kBlockBytes * mlx5::kBlockBytes;
}
constexpr std::size_t whole_registers(std::size_t bytes) noexcept {
    return (bytes + kRegisterBytes - 1) / kRegisterBytes * kRegisterBytes;
}

std::size_t receive_bytes(const mlx5::QueuePairView& view) noexcept {
    return whole_lines(std::size_t{view.receive_entries} << view.receive_stride_log2);
}
// Of both queues and the doorbell record, which has a line of its own.
std::size_t register_offset(const mlx5::QueuePairView& view) noexcept {
    return whole_registers(receive_bytes(view) +
                           std::size_t{view.send_blocks + 1} * mlx5::kBlockBytes);
}

}  // namespace

namespace {

// Less than this comes from the heap: a mapping would waste most of its last page.
constexpr std::size_t kMappedBytes = 16 * kPageBytes;

std::byte* map_pages(std::size_t bytes) noexcept {
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

std::byte* take_from_heap(std::size_t bytes) noexcept {
    void* const data = std::aligned_alloc(kRegisterBytes, whole_registers(bytes));
    return data == nullptr ? nullptr : static_cast<std::byte*>(std::memset(data, 0, bytes));
}

}  // namespace

Pages::Pages(std::size_t bytes)
    : data_(bytes < kMappedBytes ? take_from_heap(bytes) : map_pages(bytes)), bytes_(bytes) {
    if (data_ == nullptr)
        throw Error(Errc::out_of_memory, "software NIC queue",
                    fmt::format("taking {} bytes failed: {}", bytes, std::strerror(errno)),
                    "free memory, or use shorter queues");
}

Pages::~Pages() {
    if (bytes_ < kMappedBytes)
        std::free(data_);
    else
        munmap(data_, bytes_);
}

void Pages::clear() noexcept { std::memset(data_, 0, bytes_); }

QueuePairMemory::QueuePairMemory(const QueuePairOptions& options, std::uint32_t number)
    : view_(plan(options, number)), pages_(register_offset(view_) + kRegisterBytes) {
    std::byte* const base = pages_.data();
    if (view_.receive_entries != 0) view_.receive_buffer = base;
    view_.send_buffer = base + receive_bytes(view_);
    std::byte* const record =
        view_.send_buffer + std::size_t{view_.send_blocks} * mlx5::kBlockBytes;
    view_.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(record);
    view_.doorbell_register = base + register_offset(view_);
}

SharedReceiveQueueMemory::SharedReceiveQueueMemory(const SharedReceiveQueueOptions& options,
                                                   std::uint32_t number)
    : view_(plan(options, number)),
      pages_(whole_pages(std::size_t{view_.entries} << view_.stride_log2) + kPageBytes) {
    view_.buffer = pages_.data();
    view_.doorbell_record =
        reinterpret_cast<volatile std::uint32_t*>(pages_.data() + pages_.bytes() - kPageBytes);
}

CompletionQueueMemory::CompletionQueueMemory(std::uint32_t entries, std::uint32_t entry_bytes,
                                             std::uint32_t number)
    : pages_(whole_pages(std::size_t{std::bit_ceil(std::clamp(entries, 1U, kMaxCompletions))} *
                         entry_bytes) +
             2 * kPageBytes) {
    check(entries <= kMaxCompletions, "completion queue entries", entries, kMaxCompletions);
    check(entry_bytes == 64 || entry_bytes == 128, "completion entry bytes", entry_bytes, 128);
    view_.number = number;
    view_.entries = std::bit_ceil(std::max(entries, 1U));
    view_.entry_bytes = entry_bytes;
    view_.buffer = pages_.data();
    std::byte* const record = pages_.data() + pages_.bytes() - 2 * kPageBytes;
    view_.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(record);
    view_.doorbell_register = record + kPageBytes;
    CompletionRing::initialize(view_);
}

}  // namespace verbatim::softnic
