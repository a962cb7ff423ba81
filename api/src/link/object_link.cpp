#include "object_link.hpp"

#include <verbatim/core/config.hpp>

#include "breach.hpp"

namespace verbatim::objects {
namespace {

constexpr const char* kNoMemory = "a message that no memory was left for";

}  // namespace

std::shared_ptr<ObjectLink> object_link(Connection& connection) {
    return connection.layer<ObjectLink>();
}

ObjectLink::ObjectLink(Connection& connection)
    : arena_(connection.arena_ptr()), incoming_(connection), outgoing_(connection) {}

void ObjectLink::receive(Connection& connection, Message& message) noexcept try {
    if (broken_ != nullptr) return;
    ++activity_;
    const std::uint8_t kind = message.kind();
    if (Outgoing::is_answer(kind))
        outgoing_.receive(connection, message);
    else
        incoming_.receive(message);
    if (kind != wire::kEager) settle(connection);
} catch (const Breach& breach) {
    broken_ = breach.what;
} catch (const std::exception&) {
    broken_ = kNoMemory;
}

void ObjectLink::settle(Connection& connection) noexcept try {
    incoming_.settle(connection);
} catch (const Breach& breach) {
    broken_ = breach.what;
} catch (const std::exception&) {
    broken_ = kNoMemory;
}

void ObjectLink::pump(Connection& connection) {
    // Messages of the application that came before a graph are kept for it.
    const Errc handled = connection.handle_all();
    (void)connection.progress();
    if (broken_ == nullptr) {
        try {
            incoming_.take_held();
        } catch (const Breach& breach) {
            broken_ = breach.what;
        }
    }
    if (broken_ != nullptr) refuse_all();
    outgoing_.settle(connection);
    settle(connection);
    if (handled != Errc::out_of_memory) return;
    throw Error(Errc::out_of_memory, "connection to " + connection.peer_name(),
                "more messages came before a graph than are kept",
                "receive them (receive_message), then go on with the graph");
}

void ObjectLink::refuse_all() const {
    throw Error(Errc::protocol_error, "object link", broken_,
                "the peer runs another version or is broken; close the connection");
}

std::unique_ptr<PackTables> ObjectLink::lend_pack() {
    if (!pack_) {
        auto made = std::make_unique<PackTables>(arena_);
        made->classes = outgoing_.classes;
        return made;
    }
    // Nothing of the last walk is under way.
    pack_->staging.begin();
    pack_->staging.set_retired();
    return std::move(pack_);
}

void ObjectLink::give_back(std::unique_ptr<PackTables> tables) noexcept {
    if (std::exchange(unretired_, false)) {
        try {
            unusable_.push_back(std::move(tables));
        } catch (const std::bad_alloc&) {
            (void)tables.release();  // lost, rather than reused
        }
        return;
    }
    tables->staging.shrink();
    pack_ = std::move(tables);
}

std::unique_ptr<MendTables> ObjectLink::lend_mend() {
    if (mend_) return std::move(mend_);
    auto made = std::make_unique<MendTables>();
    made->classes = incoming_.types().classes();
    return made;
}

void ObjectLink::give_back(std::unique_ptr<MendTables> tables) noexcept {
    mend_ = std::move(tables);
}

}  // namespace verbatim::objects
