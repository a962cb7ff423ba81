// Telemetry is what a running process counts: by device, lane, poller, connection and channel. Each
// context keeps its counts in a segment, a file in shared memory, where other processes of the same
// user read them (`verbatim stat`). docs/telemetry.md has the layout, the owners and the costs.
//
// All counts begin at 0 with their object and only grow, but for those called gauges. A segment is
// as old as its lane's last flush: [telemetry] interval, or the moment before the lane slept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/driver/error.hpp>

namespace verbatim {

class Connection;

namespace telemetry {

// Channels of a connection that are counted apart; further ones are counted with the others.
inline constexpr std::size_t kMostChannels = 16;
// The number that stands for all other channels.
inline constexpr std::uint64_t kOtherChannels = 256;

// What came in by a channel: messages, and bytes of their payload.
struct ChannelCounts {
    std::uint64_t channel = 0, messages = 0, bytes = 0;
};

// The counts of a connection: its queue pair, and the message rings of both directions.
struct ConnectionCounts {
    std::uint64_t id = 0;    // running number in its context, from 1
    std::uint64_t lane = 0;  // id of the lane that drives it
    std::uint64_t queue_pair = 0;
    std::array<char, 48> peer{};       // "127.0.0.1:40312", NUL padded, as all texts here
    std::array<char, 16> transport{};  // "shm", "tcp", "rdma"
    // Messages of programs and layers, and bytes of their payload.
    std::uint64_t messages_sent = 0, bytes_sent = 0;
    std::uint64_t messages_received = 0, bytes_received = 0;
    // Writes into the peer's ring, by kind: records, of which some are batches or fragments; pads.
    std::uint64_t records_sent = 0, batches_sent = 0, batched_messages = 0, fragments_sent = 0;
    std::uint64_t pads_sent = 0;
    std::uint64_t credits_sent = 0;  // alone; others ride in records
    std::uint64_t wakeups_sent = 0;  // immediates and notes
    std::uint64_t armings = 0;       // generations that asked the peer for wake-ups
    std::uint64_t would_block = 0;   // calls that found the ring or the queue full
    // Work requests. They retire in order; a failed one has retired.
    std::uint64_t requests_posted = 0, requests_retired = 0, requests_failed = 0;
    // One-sided operations that were accepted, and their bytes.
    std::uint64_t reads = 0, writes = 0, atomics = 0, one_sided_bytes = 0;
    // Gauges: bytes of the peer's ring, those in use, and those of the own ring in use.
    std::uint64_t ring_bytes = 0, ring_used = 0, own_ring_used = 0;
    // Of `channels`: those with handlers in their order, then kOtherChannels.
    std::uint64_t channel_count = 0;
    std::array<ChannelCounts, kMostChannels + 1> channels{};
};

// The counts of a lane.
struct LaneCounts {
    std::uint64_t id = 0;  // running number in its context, from 1
    std::uint64_t polls = 0, events = 0;
    std::uint64_t sleeps = 0;   // times it settled down to sleep
    std::uint64_t flushes = 0;  // connections whose counts were written to the segment
    // Gauges.
    std::uint64_t connections = 0, polled = 0;
    // Of connections that have ended on it.
    std::uint64_t ended = 0, ended_messages_sent = 0, ended_bytes_sent = 0;
    std::uint64_t ended_messages_received = 0, ended_bytes_received = 0;
    std::uint64_t not_listed = 0;  // connections that found no slot in the segment
    std::uint64_t flushed_ns = 0;  // when, since the epoch
};

// A poller, which loops over its lanes. Its CPU time is read from the kernel.
struct PollerCounts {
    std::uint64_t id = 0;
    std::array<char, 32> name{};
    std::uint64_t thread = 0;  // the kernel's id
    std::uint64_t lane = 0;    // its own, whose polls are its loops
    std::uint64_t cpu_ns = 0;  // used by the thread; 0: not known
    std::int64_t core = -1;    // on which it ran last; -1: not known
};

// A device, and what is registered with it.
struct DeviceCounts {
    std::uint64_t id = 0;
    std::array<char, 64> name{};
    std::array<char, 16> kind{};  // "softnic", "rdma"
    std::uint64_t port = 0;
};

// An arena's memory, in bytes. Gauges.
struct ArenaCounts {
    std::uint64_t id = 0;
    std::array<char, 32> name{};
    std::uint64_t live = 0, populated = 0, peak = 0, cached = 0, reserved = 0;
};

// Times in nanoseconds, log-linear: 8 buckets to each power of two, so a bound is 12.5 % off at
// most. Recording costs two additions; memory is fixed.
struct Histogram {
    static constexpr unsigned kSubBits = 3;
    static constexpr std::size_t kBuckets = (37U - kSubBits) << kSubBits;  // up to 2^36 ns: 68 s

    static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
        if (ns < (1U << kSubBits)) return ns;
        const unsigned log = 63U - static_cast<unsigned>(__builtin_clzll(ns));
        const std::size_t bucket = ((log - kSubBits + 1) << kSubBits) +
                                   ((ns >> (log - kSubBits)) & ((1U << kSubBits) - 1));
        return bucket < kBuckets ? bucket : kBuckets - 1;
    }
    // The first value that is beyond the bucket.
    static constexpr std::uint64_t end_of(std::size_t bucket) noexcept {
        if (bucket < (1U << kSubBits)) return bucket + 1;
        const std::size_t shift = (bucket >> kSubBits) - 1;
        return ((bucket & ((1U << kSubBits) - 1)) + (1U << kSubBits) + 1) << shift;
    }
    void record(std::uint64_t ns) noexcept {
        ++counts[bucket_of(ns)];
        sum_ns += ns;
    }
    std::uint64_t count() const noexcept {
        std::uint64_t all = 0;
        for (const std::uint64_t one : counts) all += one;
        return all;
    }
    // The end of the bucket that holds this share of the values, 0 .. 1; 0 where there is none.
    std::uint64_t quantile(double share) const noexcept;

    std::uint64_t sum_ns = 0;
    std::array<std::uint64_t, kBuckets> counts{};
};

// A histogram of a connection: of its operations, or of a channel's handler.
struct NamedHistogram {
    std::uint64_t id = 0;
    std::uint64_t connection = 0;
    std::uint64_t channel = 0;  // kOtherChannels: operations, from posting to completion
    Histogram times;
};

// What was read from one segment.
struct Process {
    std::uint64_t pid = 0;
    std::string program, path;
    bool runs = false;  // false: it ended without closing its context; these are its last counts
    std::uint64_t interval_ns = 0;
    std::vector<DeviceCounts> devices;
    std::vector<LaneCounts> lanes;
    std::vector<PollerCounts> pollers;
    std::vector<ArenaCounts> arenas;
    std::vector<ConnectionCounts> connections;
    std::vector<NamedHistogram> histograms;
};

// The counts of a connection now. In its lane's thread.
ConnectionCounts counts_of(Connection& connection) noexcept;

// The directory of segments where [telemetry] names none: $XDG_RUNTIME_DIR/verbatim, else
// /dev/shm/verbatim-<user>.
std::string default_directory();
// The segments in a directory, of running processes and of those that were killed. Removes those
// of processes that have been gone for ten minutes. A directory that is not there has none.
// Throws Error(permission_denied): it belongs to another user.
std::vector<std::string> segments(const std::string& directory);
// Reads a segment, whose bytes are not trusted. Throws Error: peer_lost (it is gone),
// permission_denied (another user's), version_mismatch, protocol_error (it contradicts itself).
Process read_segment(const std::string& path);
// The same of a file's bytes; `runs` and what the kernel tells are left out.
Process parse_segment(std::string_view bytes);

// A text of the structs above.
template <std::size_t kSize>
std::string_view text_of(const std::array<char, kSize>& text) noexcept {
    const std::string_view all(text.data(), text.size());
    return all.substr(0, all.find('\0'));
}

}  // namespace telemetry
}  // namespace verbatim
