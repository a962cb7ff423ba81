// A transfer moves a scanned graph over a connection, free of templates. It holds the messages of
// sender and receiver (docs/wire.md, "Graphs"), the places of the bytes, and the ways to give up.
// Nothing here blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/scan.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

// The state that all transfers of one connection share: a layer of it. Threads: the lane's.
class ObjectLink;
struct FixupTables;
ObjectLink& object_link(Connection& connection);

// A scan borrowed from a connection, so that its tables are allocated and first touched once, not
// per graph.
class ScanLease {
  public:
    explicit ScanLease(Connection& connection);
    ~ScanLease();
    ScanLease(const ScanLease&) = delete;
    ScanLease& operator=(const ScanLease&) = delete;

    Scan& operator*() const noexcept { return *scan_; }
    Scan* operator->() const noexcept { return scan_.get(); }

  private:
    std::shared_ptr<void> link_;  // keeps the ObjectLink that gets the scan back
    std::unique_ptr<Scan> scan_;
};

// Memory of the receive arena that holds one graph. Any thread may release it.
class ImageMemory {
  public:
    ImageMemory() = default;
    // Throws Error(graph_too_large) if the arena cannot hold it.
    ImageMemory(std::shared_ptr<Arena> arena, std::uint64_t bytes);
    ImageMemory(ImageMemory&& other) noexcept { swap(other); }
    ImageMemory& operator=(ImageMemory&& other) noexcept {
        swap(other);
        return *this;
    }
    ~ImageMemory();

    std::byte* data() const noexcept { return data_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    void swap(ImageMemory& other) noexcept {
        std::swap(arena_, other.arena_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }
    std::shared_ptr<Arena> arena_;
    std::byte* data_ = nullptr;
    std::uint64_t bytes_ = 0;
};

// A graph whose bytes have all arrived, not yet checked.
struct Arrived {
    ImageMemory image;
    std::vector<std::byte> metadata;  // back-pointers, then extensions
    std::uint64_t back_pointer_count = 0;
    std::uint64_t extension_count = 0;

    std::span<const BackPointer> back_pointers() const noexcept {
        return {reinterpret_cast<const BackPointer*>(metadata.data()), back_pointer_count};
    }
    std::span<const Extension> extensions() const noexcept {
        const std::byte* first = metadata.data() + back_pointer_count * sizeof(BackPointer);
        return {reinterpret_cast<const Extension*>(first), extension_count};
    }
};

// Sends one scanned graph. The scan, the graph and the connection must outlive it and stay
// unchanged. Destroyed before it is done, it tells the receiver to drop the graph.
class Outbound {
  public:
    Outbound(Connection& connection, const Scan& scan, const TypeInfo& root);
    ~Outbound();
    Outbound(const Outbound&) = delete;
    Outbound& operator=(const Outbound&) = delete;

    // Takes all steps that need no wait. True once the receiver's memory holds the graph. Throws
    // Error: the receiver's refusal (type_mismatch, graph_too_large), or the connection's end.
    bool step();
    // True while only the receiver's answer can help.
    bool awaits_receiver() const noexcept;
    std::uint64_t wire_bytes() const noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Receives the next graph, which must have the root type given.
class Inbound {
  public:
    Inbound(Connection& connection, const TypeInfo& root);
    ~Inbound();
    Inbound(const Inbound&) = delete;
    Inbound& operator=(const Inbound&) = delete;

    // True once arrived() holds the graph. Throws Error: type_mismatch or graph_too_large (the
    // sender is told and the connection goes on), protocol_error, or the connection's end.
    bool step();
    // True once a sender has announced the graph: from here on a silent sender is a dead one.
    bool has_begun() const noexcept;
    Arrived& arrived() noexcept;
    // Tables for the fix-up; the connection keeps them from graph to graph.
    FixupTables& tables();

  private:
    Connection& connection_;
    const TypeInfo& root_;
    std::shared_ptr<void> link_;  // keeps the ObjectLink that gets the tables back
    std::unique_ptr<FixupTables> tables_;
    Arrived arrived_;
};

}  // namespace verbatim::objects
