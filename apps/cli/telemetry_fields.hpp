// The counts of telemetry by name: one list for tables, JSON and Prometheus.
#pragma once

#include <array>
#include <cstdint>

#include <verbatim/core/telemetry.hpp>

namespace cli {

enum class FieldKind : std::uint8_t { counter, gauge };

template <class Counts>
struct Field {
    const char*
        name;  // of Prometheus: with the object's name before it, and _total behind counters
    std::uint64_t Counts::*value;
    const char* help;
    FieldKind kind = FieldKind::counter;
};
// For clang, which deduces no aggregates.
template <class Counts>
Field(const char*, std::uint64_t Counts::*, const char*) -> Field<Counts>;
template <class Counts>
Field(const char*, std::uint64_t Counts::*, const char*, FieldKind) -> Field<Counts>;

using verbatim::telemetry::ArenaCounts;
using verbatim::telemetry::ConnectionCounts;
using verbatim::telemetry::LaneCounts;
using verbatim::telemetry::PollerCounts;

inline constexpr std::array kConnectionFields{
    Field{"messages_sent", &ConnectionCounts::messages_sent, "Messages that were accepted."},
    Field{"bytes_sent", &ConnectionCounts::bytes_sent, "Bytes of their payload."},
    Field{"messages_received", &ConnectionCounts::messages_received,
          "Messages that were handed out."},
    Field{"bytes_received", &ConnectionCounts::bytes_received, "Bytes of their payload."},
    Field{"records_sent", &ConnectionCounts::records_sent,
          "Records that were written to the peer's ring."},
    Field{"batches_sent", &ConnectionCounts::batches_sent, "Records of several messages."},
    Field{"batched_messages", &ConnectionCounts::batched_messages,
          "Messages that went in batches."},
    Field{"fragments_sent", &ConnectionCounts::fragments_sent, "Records of parts of messages."},
    Field{"pads_sent", &ConnectionCounts::pads_sent, "Records that skip a part of the ring."},
    Field{"credits_sent", &ConnectionCounts::credits_sent, "Credits that were sent alone."},
    Field{"wakeups_sent", &ConnectionCounts::wakeups_sent, "Immediates and notes to the peer."},
    Field{"armings", &ConnectionCounts::armings, "Times that the peer was asked for wake-ups."},
    Field{"would_block", &ConnectionCounts::would_block,
          "Calls that found the ring or the queue full."},
    Field{"requests_posted", &ConnectionCounts::requests_posted, "Work requests."},
    Field{"requests_retired", &ConnectionCounts::requests_retired,
          "Work requests that are done or failed."},
    Field{"requests_failed", &ConnectionCounts::requests_failed, "Work requests that failed."},
    Field{"reads", &ConnectionCounts::reads, "One-sided reads."},
    Field{"writes", &ConnectionCounts::writes, "One-sided writes."},
    Field{"atomics", &ConnectionCounts::atomics, "Atomic operations."},
    Field{"one_sided_bytes", &ConnectionCounts::one_sided_bytes, "Bytes of one-sided operations."},
    Field{"ring_bytes", &ConnectionCounts::ring_bytes, "Size of the peer's ring.",
          FieldKind::gauge},
    Field{"ring_used_bytes", &ConnectionCounts::ring_used, "Bytes in use there.", FieldKind::gauge},
    Field{"own_ring_used_bytes", &ConnectionCounts::own_ring_used,
          "Bytes of the own ring that messages hold.", FieldKind::gauge},
};

inline constexpr std::array kLaneFields{
    Field{"polls", &LaneCounts::polls, "Polls of the lane."},
    Field{"events", &LaneCounts::events, "Things that polls found."},
    Field{"sleeps", &LaneCounts::sleeps, "Times that it settled down to sleep."},
    Field{"flushes", &LaneCounts::flushes, "Connections whose counts were written."},
    Field{"connections", &LaneCounts::connections, "Connections on the lane.", FieldKind::gauge},
    Field{"polled_connections", &LaneCounts::polled, "Connections whose memory is polled.",
          FieldKind::gauge},
    Field{"ended_connections", &LaneCounts::ended, "Connections that have ended on it."},
    Field{"ended_messages_sent", &LaneCounts::ended_messages_sent, "Messages that those sent."},
    Field{"ended_bytes_sent", &LaneCounts::ended_bytes_sent, "Bytes that those sent."},
    Field{"ended_messages_received", &LaneCounts::ended_messages_received,
          "Messages that those received."},
    Field{"ended_bytes_received", &LaneCounts::ended_bytes_received, "Bytes that those received."},
    Field{"connections_not_listed", &LaneCounts::not_listed,
          "Connections that found no room in the segment."},
};

inline constexpr std::array kArenaFields{
    Field{"live_bytes", &ArenaCounts::live, "Bytes that are allocated.", FieldKind::gauge},
    Field{"populated_bytes", &ArenaCounts::populated, "Bytes of segments.", FieldKind::gauge},
    Field{"peak_bytes", &ArenaCounts::peak, "The most that was allocated.", FieldKind::gauge},
    Field{"cached_bytes", &ArenaCounts::cached, "Free bytes that threads keep.", FieldKind::gauge},
    Field{"reserved_bytes", &ArenaCounts::reserved, "The most that it may have.", FieldKind::gauge},
};

}  // namespace cli
