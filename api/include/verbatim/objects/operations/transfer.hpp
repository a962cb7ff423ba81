// A transfer moves a graph over a connection, free of its types: Outbound what a Packer walks,
// Inbound what a Mender walks. docs/graphs.md has the protocol. Nothing here blocks, but for the
// end of an Outbound that was not done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/composed/composed_tables.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/graph/mending.hpp>
#include <verbatim/objects/graph/packing.hpp>
#include <verbatim/objects/operations/link_use.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim {
class RegistrationCache;
}
namespace verbatim::objects {

// The state that all transfers of one connection share: a layer of it. Threads: the lane's.
class ObjectLink;
class ImageWriter;
struct KeptImage;
std::shared_ptr<ObjectLink> object_link(Connection& connection);
struct Arrival;

// An eager graph lies at a multiple of this.
inline constexpr std::size_t kEagerAlignment = 64;
// The largest alignment in graphs with such a root.
template <class Root>
inline constexpr std::size_t kLargestAlignment = []<class... T>(List<T...>) {
    return std::max({std::size_t{1}, alignof(T)...});
}(typename Closure<Root>::Types{});

// What both sides compare; looked up once for each type.
struct RootType {
    const TypeInfo& info;
    const Layout& layout;
    std::size_t alignment;  // the largest of the graph's types
};
// Throws Error(unsupported): such a graph cannot be sent or received.
template <class Root>
const RootType& root_type() {
    static const RootType type{type_info<Root>(), layout_of(type_info<Root>()),
                               kLargestAlignment<Root>};
    return type;
}

PackOptions pack_options(Connection& connection, bool acyclic) noexcept;

// Memory that one graph lies in. Any thread may release it.
class ImageMemory {
  public:
    ImageMemory() = default;
    // One block. Throws Error(out_of_memory).
    ImageMemory(std::shared_ptr<Arena> arena, std::uint64_t bytes, std::size_t alignment);
    explicit ImageMemory(std::shared_ptr<std::byte> block) noexcept
        : data_(block.get()), held_(std::move(block)) {}
    // Many pieces, which their owner releases.
    explicit ImageMemory(std::shared_ptr<void> pieces) noexcept : held_(std::move(pieces)) {}
    ImageMemory(ImageMemory&& other) noexcept { swap(other); }
    ImageMemory& operator=(ImageMemory&& other) noexcept {
        ImageMemory moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~ImageMemory() {
        if (bytes_ != 0) release();
    }
    std::byte* data() const noexcept { return data_; }  // of one block
    // Holds the memory as long as this object or one of the pointers.
    std::shared_ptr<void> share();

  private:
    void release() noexcept;
    void swap(ImageMemory& other) noexcept {
        std::swap(arena_, other.arena_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(held_, other.held_);
    }
    std::shared_ptr<Arena> arena_;
    std::byte* data_ = nullptr;
    std::uint64_t bytes_ = 0;  // of the arena
    std::shared_ptr<void> held_;
};

// Tables of a sender's walk, borrowed from a connection.
class PackLease {
  public:
    explicit PackLease(Connection& connection);
    ~PackLease();
    PackLease(const PackLease&) = delete;
    PackLease& operator=(const PackLease&) = delete;

    PackTables& operator*() const noexcept { return *tables_; }
    ObjectLink& link() const noexcept { return *link_; }

  private:
    LinkUse link_;
    std::unique_ptr<PackTables> tables_;
};

class ComposePlace;

struct OutboundOptions {
    std::uint16_t channel = 0;
    bool acyclic = false;
    RegistrationCache* foreign = nullptr;
    bool composed = false;
    const ComposePlace* place = nullptr;  // of a composed message
};

// Sends what a packing walks. All that is handed over must outlive it. Destroyed before it is done,
// it waits for writes that read the graph, and tells the receiver to forget it.
class Outbound {
  public:
    Outbound(ObjectLink& link, Packing& packing, const RootType& root, OutboundOptions options);
    ~Outbound();
    Outbound(const Outbound&) = delete;
    Outbound& operator=(const Outbound&) = delete;

    // Takes all steps that need no wait. True once the graph may change: an eager one was
    // accepted, another one lies in the receiver's memory. Throws Error: the walk's, the receiver's
    // refusal (type_mismatch, graph_too_large, corrupt_message), or the connection's end.
    // `is_part`: returns false after one flush, of about a segment.
    bool step(bool is_part = false);
    // The graph may change: writes that are under way read copies.
    bool is_reusable() const noexcept;
    // Its end waits for no write.
    bool is_quiet() noexcept;
    // The receiver has heard of it: a silent one is a dead one.
    bool has_begun() const noexcept { return id_ != 0; }
    // True while only the receiver can help, by room for the graph.
    bool awaits_receiver() const noexcept { return phase_ == Phase::bind; }
    std::uint64_t wire_bytes() const noexcept { return wire_bytes_; }

  private:
    enum class Phase : std::uint8_t {
        walk,
        eager,
        layout,
        begin,
        restart,
        bind,
        write,
        tell,
        retire,
        done
    };

    Connection& connection() const;
    void begin_step();
    bool advance();
    bool walk();
    bool is_small() const;
    bool send_eager();
    bool send_layout();
    bool tell_layout(const Layout& layout, std::string_view name);
    bool tell_classes();
    bool begin();
    bool restart();
    bool bind();
    bool write();
    bool tell();
    bool tell_part(bool& is_all);
    bool retire();
    bool send(std::uint8_t kind, std::span<const std::byte> head, std::span<const std::byte> body);

    ObjectLink& link_;
    Packing& packing_;
    const RootType& root_;
    OutboundOptions options_;
    Phase phase_ = Phase::walk;
    bool walked_ = false;
    std::uint64_t id_ = 0;     // once it was begun
    std::uint64_t asked_ = 0;  // changes of the windows when room was asked for, and one
    std::uint64_t wire_bytes_ = 0;
    std::uint64_t told_cursor_ = 0;
    // What the peer was told of the layout and of the flush.
    struct Told {
        std::size_t layout = 0, bindings = 0, places = 0, arrays = 0, patches = 0;
    } told_;
    std::unique_ptr<ImageWriter> writer_;  // once it is not eager
};

// Of the exception that is handled, which a step of an operation threw. A comparator, hash function
// or validator of the program may throw anything.
Error error_of_step();
[[noreturn]] void refuse_take();

// The walk of a receiver over a graph that is not whole yet, kept with the graph.
struct KeptWalk {
    explicit KeptWalk(std::unique_ptr<MendTables> own) noexcept : tables(std::move(own)) {}
    virtual ~KeptWalk() = default;
    KeptWalk(const KeptWalk&) = delete;
    KeptWalk& operator=(const KeptWalk&) = delete;

    std::unique_ptr<MendTables> tables;
    Mending* mending = nullptr;
};

// Receives the next graph of a channel, which must have the root type given. Destroyed before it
// has taken the graph, it leaves it the next one.
class Inbound {
  public:
    Inbound(Connection& connection, const RootType& root, std::uint16_t channel);
    ~Inbound();
    Inbound(const Inbound&) = delete;
    Inbound& operator=(const Inbound&) = delete;
    ObjectLink& link() const noexcept { return *link_; }

    // True if something of the graph is there that was not walked yet. Throws Error: type_mismatch
    // or graph_too_large (the sender is told and the connection goes on), protocol_error, or the
    // connection's end.
    bool look();
    // look() would find something.
    bool has_news() const noexcept;
    // True once a graph has begun to come in: from here on a silent sender is a dead one.
    bool has_begun() const noexcept { return arrival_ != nullptr; }
    std::uint16_t channel() const noexcept { return channel_; }
    // All of it is there, and no walk has begun.
    bool is_at_once() const noexcept;
    bool is_acyclic() const noexcept;
    bool is_composed() const noexcept;
    // Its bytes; null: they must still come. Throws Error(corrupt_message).
    ComposedMemory composed() const;
    // A copy of the image as it came, once all of it is there. False: it must still come. No copy
    // where a walk has begun, or where the arena has no room.
    bool keep(std::shared_ptr<KeptImage>& image);
    MendTables& tables();
    // Those of the connection: for one walk at a time.
    ComposedTables& composed_tables();
    using MakeWalk = std::shared_ptr<KeptWalk> (*)(std::unique_ptr<MendTables>, bool acyclic);
    Mending& walk(MakeWalk make);
    // Walks on; true once the graph is whole and checked.
    bool run(Mending& mending);
    // Of the graph that is whole; it is no longer the next one.
    ImageMemory take();
    // The graph cannot be received; nothing of it is left.
    void drop(const Error& error);

    // It is the next graph once more, with its walk so far.
    void leave() noexcept;

  private:
    void check_type();

    const RootType& root_;
    std::uint16_t channel_;
    LinkUse link_;
    std::unique_ptr<MendTables> tables_;
    Arrival* arrival_ = nullptr;
    bool is_checked_ = false;
};

// A graph of that channel can be received at once, or the error that became of it. Takes in what
// has arrived. Throws Error: the connection's end, if nothing is left.
bool is_readable(Connection& connection, std::uint16_t channel);

// The fingerprint of the next graph's root, of that channel; none has begun to come in. Takes in
// what has arrived. Throws Error: the connection's end.
std::optional<std::uint64_t> next_root(Connection& connection, std::uint16_t channel);

// Pauses between steps; throws Error(timeout) when the deadline passes, or when a begun transfer
// does not move for config objects.timeout.
class Patience {
  public:
    enum class Of : std::uint8_t { send, receive };
    Patience(Connection& connection, Deadline deadline, Of of)
        : owned_(object_link(connection)), link_(*owned_), deadline_(deadline), of_(of) {}
    // Of an operation, which outlives this.
    Patience(ObjectLink& link, Deadline deadline, Of of)
        : link_(link), deadline_(deadline), of_(of) {}
    void wait(bool begun);

  private:
    void check(bool begun);
    [[noreturn]] void fail(Errc code, const std::string& cause, const char* remedy) const;

    std::shared_ptr<ObjectLink> owned_;
    ObjectLink& link_;
    Deadline deadline_;
    Of of_;
    unsigned round_ = 0;          // pauses since the transfer last got on
    std::uint64_t activity_ = 0;  // of the link, then
    Deadline stalled_;            // when it must have got on; none before it has begun
    Deadline starved_;            // when graphs of other channels must have been received
};

}  // namespace verbatim::objects
