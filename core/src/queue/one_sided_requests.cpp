// The work requests of one-sided operations.
#include "one_sided_requests.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace verbatim {
namespace {

constexpr std::size_t kMaxElements = 16;
// From here on a write gets a completion of its own, so that a flush need not post one more
// request; copying this much takes several times as long as a completion.
constexpr std::size_t kSignalBytes = 4096;
// Each post of a list names its own.
constexpr std::array<mlx5::Element, 1> kNoElement{{{0, 1, 0}}};

}  // namespace

OneSidedRequests::OneSidedRequests(SendPath& path, RegionTables& arenas, std::uint64_t most)
    : path_(path),
      arenas_(arenas),
      most_(std::min<std::uint64_t>(most, std::uint64_t{1} << 31)),
      word_{mlx5::PreparedWrite8(path.queue(), {.opcode = mlx5::Opcode::write})},
      read_{{path.queue(), {.opcode = mlx5::Opcode::read, .elements = kNoElement}}} {}

Errc OneSidedRequests::try_transfer(const Transfer& transfer, std::size_t& done) noexcept {
    path_.make_room();
    while (done < transfer.bytes) {
        Transfer rest = transfer;
        rest.local += done, rest.bytes -= done, rest.remote.address += done;
        std::size_t went = rest.bytes;
        if (transfer.signaled) path_.signal_next();
        const bool is_word = went == sizeof(std::uint64_t) && rest.opcode == mlx5::Opcode::write;
        const Errc error = is_word ? write_word(rest) : post_some(rest, went);
        if (error != Errc::ok) [[unlikely]]
            return error;
        done += went;
        counts_.add(rest.opcode, went);
        last_ = path_.accepted();
    }
    return Errc::ok;
}

Errc OneSidedRequests::write_word(const Transfer& transfer) noexcept {
    // Copied by this thread: where nothing is registered nothing may be mapped.
    const LocalMemory memory = memory_of(transfer);
    const std::byte* const from = transfer.local;
    for (const std::byte* end : {from, from + sizeof(std::uint64_t) - 1}) {
        const MemoryRegion* region = nullptr;
        const Errc error = memory.find(end, region);
        if (error != Errc::ok) [[unlikely]]
            return error;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return path_.post(word_, transfer.remote, word);
}

Errc OneSidedRequests::post_some(const Transfer& rest, std::size_t& went) noexcept {
    std::array<mlx5::Element, kMaxElements> elements;
    const LocalMemory memory = memory_of(rest);
    const std::size_t most =
        std::min<std::size_t>(kMaxElements, path_.queue().limits().max_elements);
    const std::size_t wanted = std::min<std::size_t>(rest.bytes, most_);
    std::size_t count = 0;
    for (went = 0; count < most && went < wanted; ++count) {
        const MemoryRegion* region = nullptr;
        const std::byte* const at = rest.local + went;
        if (const Errc error = memory.find(at, region); error != Errc::ok) return error;
        const std::size_t piece = std::min(wanted - went, memory.to_end(at));
        elements[count] = {reinterpret_cast<std::uint64_t>(at), static_cast<std::uint32_t>(piece),
                           region->local_key()};
        went += piece;
    }
    // More requests follow: they may not be refused once this one has gone. Arenas are populated
    // from the front, so the last byte stands for all.
    const MemoryRegion* last = nullptr;
    if (went < rest.bytes)
        if (const Errc error = memory.find(rest.local + rest.bytes - 1, last); error != Errc::ok)
            return error;
    mlx5::WorkRequest request{.opcode = rest.opcode,
                              .remote_address = rest.remote.address,
                              .remote_key = rest.remote.key,
                              .elements = std::span(elements).first(count)};
    if (went >= kSignalBytes) path_.signal_next();
    return path_.post(request);
}

Errc OneSidedRequests::prepare(const RemoteExtent& remote, const std::byte* local,
                               PreparedTarget& target) const noexcept {
    const MemoryRegion* region = nullptr;
    RegionTable& regions = table_of(local);
    if (const Errc error = regions.find_or_register(local, region); error != Errc::ok) return error;
    const std::uint64_t most = std::min<std::uint64_t>(most_, regions.to_segment_end(local));
    if (remote.bytes == 0 || remote.bytes > most) return Errc::invalid_argument;
    target.remote = {remote.address, remote.remote_key};
    target.local = {reinterpret_cast<std::uint64_t>(local),
                    static_cast<std::uint32_t>(remote.bytes), region->local_key()};
    return Errc::ok;
}

Errc OneSidedRequests::try_read_targets(std::span<const PreparedTarget> reads,
                                        std::size_t& done) noexcept {
    path_.make_room();
    while (done < reads.size()) {
        const PreparedTarget* const rest = reads.data() + done;
        const auto next = [rest](std::uint32_t i) {
            const PreparedTarget& read = rest[i];
            return mlx5::Listed{read.remote, [&read](std::uint32_t) { return read.local; }};
        };
        std::uint32_t posted = 0;
        const auto left = static_cast<std::uint32_t>(reads.size() - done);
        if (const Errc error = path_.post_list(read_, left, next, posted); error != Errc::ok)
            return error;
        for (const PreparedTarget& read : reads.subspan(done, posted))
            counts_.add(mlx5::Opcode::read, read.local.bytes);
        done += posted;
        last_ = path_.accepted();
    }
    return Errc::ok;
}

Errc OneSidedRequests::try_read_all(std::span<const RemoteRead> reads, std::size_t& done) noexcept {
    std::array<PreparedTarget, kMostReads> targets;
    while (done < reads.size()) {
        const std::size_t count = std::min(reads.size() - done, kMostReads);
        for (std::size_t i = 0; i < count; ++i)
            if (const Errc error = prepare(reads[done + i].from, reads[done + i].into, targets[i]);
                error != Errc::ok)
                return error;
        std::size_t posted = 0;
        const Errc error = try_read_targets(std::span(targets).first(count), posted);
        done += posted;
        if (error != Errc::ok) return error;
    }
    return Errc::ok;
}

Errc OneSidedRequests::try_atomic(const AtomicOperands& operands, std::byte* before,
                                  mlx5::RemoteMemory word) noexcept {
    path_.make_room();
    const MemoryRegion* region = nullptr;
    if (const Errc error = table_of(before).find_or_register(before, region); error != Errc::ok)
        return error;
    const mlx5::Element element{reinterpret_cast<std::uint64_t>(before), sizeof(std::uint64_t),
                                region->local_key()};
    mlx5::WorkRequest request{.opcode = operands.opcode,
                              .remote_address = word.address,
                              .remote_key = word.key,
                              .elements = {&element, 1},
                              .compare = operands.compare,
                              .swap_or_add = operands.swap_or_add,
                              .compare_mask = operands.compare_mask,
                              .swap_mask = operands.swap_mask};
    path_.signal_next();
    const Errc error = path_.post(request);
    if (error != Errc::ok) return error;
    counts_.add(operands.opcode, sizeof(std::uint64_t));
    last_ = path_.accepted();
    return error;
}

Errc OneSidedRequests::try_flush() noexcept {
    for (bool asked = false; path_.retired() < last_; asked = true) {
        if (const Errc error = path_.poll(); error != Errc::ok) return error;
        if (path_.retired() >= last_) break;
        if (asked) return Errc::would_block;
        if (const Errc error = path_.signal_last(); error != Errc::ok) return error;
    }
    return path_.error();
}

}  // namespace verbatim
