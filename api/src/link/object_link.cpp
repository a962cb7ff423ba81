#include "object_link.hpp"

#include <verbatim/core/config.hpp>
#include <verbatim/core/layers/layer_requests.hpp>

#include "messages/breach.hpp"

namespace verbatim::objects {
namespace {

constexpr const char* kNoMemory = "a message that no memory was left for";

}  // namespace

std::shared_ptr<ObjectLink> object_link(Connection& connection) {
    struct End {
        std::shared_ptr<ObjectLink> link;
        ~End() { link->end(false); }
    };
    const bool is_there = LayerAccess::has_handler(connection, ObjectLink::kChannel);
    auto link = connection.layer<ObjectLink>();
    if (!is_there)
        connection.add_end_handler(
            {[](void* state, Connection&) noexcept { static_cast<End*>(state)->link->end(true); },
             std::shared_ptr<End>(new End{link}), true});
    return link;
}

LinkUse::LinkUse(Connection& connection) {
    void* const state = LayerAccess::state_of(connection, ObjectLink::kChannel);
    link_ = state != nullptr ? static_cast<ObjectLink*>(state) : object_link(connection).get();
    begin();
}

LinkUse::LinkUse(ObjectLink& link) : link_(&link) { begin(); }

void LinkUse::begin() {
    if (link_->uses_++ == 0 && link_->impl_ == nullptr) [[unlikely]]
        link_->kept_ = link_->shared_from_this();
}

LinkUse::~LinkUse() {
    if (--link_->uses_ != 0 || link_->kept_ == nullptr) [[likely]]
        return;
    const auto last = std::move(link_->kept_);  // which may end the link
}

void ask_back(ObjectLink& link) noexcept { link.operations().look(); }

ObjectLink::ObjectLink(Connection& connection)
    : impl_(&LayerAccess::impl_of(connection)),
      incoming_(connection),
      outgoing_(connection),
      operations_(*this),
      tables_(connection.arena_ptr(), outgoing_.classes, incoming_.types().classes(),
              outgoing_.buffers) {
    LayerAccess::set_move_handler(
        connection,
        [](void* link, bool is_asked) noexcept {
            return static_cast<ObjectLink*>(link)->withdraw(is_asked);
        },
        this, outgoing_.buffers);
}

bool ObjectLink::withdraw(bool is_asked) noexcept try {
    Connection* const connection = this->connection();
    if (connection == nullptr) return true;
    const bool is_taken = incoming_.lent().withdraw(*connection);
    const bool is_given = outgoing_.withdraw(*connection, is_asked);
    if (is_taken) return is_given;
    // A graph on its way may need memory that only calls populate; this is part of one.
    incoming_.lent().allow_growth(true);
    settle();
    incoming_.lent().allow_growth(false);
    return false;
} catch (const std::bad_alloc&) {
    return false;
}

Connection& ObjectLink::here() const {
    if (Connection* const connection = this->connection()) return *connection;
    throw end_error();
}

void ObjectLink::check() const {
    const Connection& connection = here();
    if (connection.state() != Errc::ok) connection.check();
}

Error ObjectLink::end_error() const {
    if (end_) return *end_;
    return Error(Errc::flushed, "connection", "the program ended it before the operation was done",
                 "keep the connection until its operations are over");
}

void ObjectLink::end(bool by_peer) noexcept {
    if (impl_ == nullptr) return;
    if (Connection* const connection = this->connection()) {
        landed_ = LayerRequests::landed(*connection);
        all_taken_ = connection->peer_took_all();
        try {
            connection->check();
            if (by_peer)  // messages of the program wait still
                end_.emplace(Errc::peer_lost, "connection to " + connection->peer_name(),
                             "the peer closed it, or died", "connect again");
        } catch (const Error& error) {
            end_ = error;
        }
    }
    impl_ = nullptr;
    if (uses_ != 0) kept_ = shared_from_this();
    operations_.drive();
}

bool ObjectLink::has_landed(std::uint64_t& request) noexcept {
    Connection* const connection = this->connection();
    if (connection == nullptr) return all_taken_ || (request != 0 && request <= landed_);
    if (request == 0) request = LayerRequests::last(*connection);
    if (request == 0) return false;
    if (request <= LayerRequests::landed(*connection)) return true;
    LayerRequests::ask(*connection);
    return false;
}

bool ObjectLink::must_settle() const noexcept {
    return broken_ == nullptr && (incoming_.must_settle() || outgoing_.must_settle());
}

void ObjectLink::receive(Connection& connection, Message& message) noexcept try {
    if (broken_ != nullptr) return;
    ++activity_;
    const std::uint8_t kind = message.kind();
    bool is_held = false;
    if (Outgoing::is_answer(kind))
        outgoing_.receive(connection, message);
    else
        is_held = !incoming_.receive(message);
    must_go_on_ = must_go_on_ || kind != wire::kEager || is_held;
    // Many small graphs may come before the next pump.
    if (kind != wire::kEager || incoming_.lent().must_reclaim()) settle();
    operations_.drive();
} catch (const Breach& breach) {
    broken_ = breach.what;
    operations_.look();
} catch (const std::exception&) {
    broken_ = kNoMemory;
    operations_.look();
}

void ObjectLink::settle() noexcept try {
    if (Connection* const connection = this->connection()) incoming_.settle(*connection);
} catch (const Breach& breach) {
    broken_ = breach.what;
} catch (const std::exception&) {
    broken_ = kNoMemory;
}

void ObjectLink::poll() {
    Connection* const connection = this->connection();
    // A driven operation must not end in its own step.
    if (connection != nullptr && !operations_.is_driving()) go_on(connection->handle_all());
}

void ObjectLink::pump_arrived() {
    Connection* const connection = this->connection();
    if (connection != nullptr && !operations_.is_driving()) {
        const std::uint64_t before = activity_;
        const Errc handled = connection->handle_all();
        const bool is_all_taken = activity_ != before && !must_go_on_ && broken_ == nullptr;
        if (is_all_taken && handled != Errc::out_of_memory && ++looks_ % kLooks != 0) return;
        go_on(handled);
    }
    take_in();
}

// After the messages, one of whose handlers may have ended the connection.
void ObjectLink::go_on(Errc handled) {
    must_go_on_ = false;
    Connection* const connection = this->connection();
    if (connection == nullptr) return;
    // In a forked child no poll tells of the end.
    if (handled == Errc::permission_denied) return end(false);
    (void)connection->progress();
    if (handled != Errc::out_of_memory) return;
    throw Error(Errc::out_of_memory, "connection to " + here().peer_name(),
                "more messages came before a graph than are kept",
                "receive them (receive_message), then go on with the graph");
}

void ObjectLink::take_in() {
    if (tables_.has_unretired())
        if (Connection* const connection = this->connection())
            if (connection->try_flush() == Errc::ok) tables_.set_retired();
    if (broken_ == nullptr) {
        try {
            incoming_.take_held();
        } catch (const Breach& breach) {
            broken_ = breach.what;
        }
    }
    if (broken_ != nullptr) refuse_all();
    if (Connection* const connection = this->connection()) outgoing_.settle(*connection);
    incoming_.lent().allow_growth(true);
    settle();
    incoming_.lent().allow_growth(false);
}

void ObjectLink::refuse_all() const {
    throw Error(Errc::protocol_error, "object link", broken_,
                "the peer runs another version or is broken; close the connection");
}

}  // namespace verbatim::objects
