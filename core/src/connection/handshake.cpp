// The order of things while two sides meet.
#include "handshake.hpp"

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/log.hpp>

namespace verbatim {
namespace {

constexpr std::chrono::milliseconds kForTheReason{200};
// Between looks at an older connection, whose lane ends it: rare, and no descriptor tells of it.
constexpr std::chrono::milliseconds kForTheOlder{1};

// The peer noticed the failure too and may know the cause where this side only saw silence.
bool is_silence(const Error& error) noexcept {
    return error.code() == Errc::timeout || error.code() == Errc::peer_lost;
}

}  // namespace

Handshake::Handshake(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane,
                     SideChannel channel, SocketSide side, std::optional<ClientIdentity> client)
    : context_(std::move(context)),
      lane_(std::move(lane)),
      channel_(std::move(channel)),
      client_(client),
      side_(side) {
    if (context_->key == nullptr) {
        begin_greeting();
        return;
    }
    proving_.emplace(context_->key,
                     side == SocketSide::caller ? Prover::Role::caller : Prover::Role::listener);
    begin(Stage::proving);
}

Handshake::Handshake(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane,
                     SideChannel channel, Hello peer)
    : context_(std::move(context)),
      lane_(std::move(lane)),
      channel_(std::move(channel)),
      peer_(std::move(peer)),
      side_(SocketSide::listener) {}

bool Handshake::go_on() {
    try {
        while (step()) {
        }
        return stage_ == Stage::met;
    } catch (const Error& error) {
        channel_.refuse(error);
        throw;
    }
}

void Handshake::begin(Stage stage) {
    stage_ = stage;
    deadline_ =
        Deadline::after(stage == Stage::failing ? kForTheReason : context_->config.connect.timeout);
}

// False: it has met, or must wait.
bool Handshake::step() {
    switch (stage_) {
        case Stage::proving:
            return prove();
        case Stage::greeting:
            return greet();
        case Stage::hearing:
            return hear();
        case Stage::connecting:
            return connect();
        case Stage::failing:
            return hear_reason();
        case Stage::readying:
            return hear_ready();
        case Stage::met:
            break;
    }
    return false;
}

bool Handshake::prove() {
    if (!proving_->go_on(channel_, deadline_)) return false;
    begin_greeting();
    return true;
}

// A listener makes its endpoint for a peer that has said hello.
void Handshake::begin_greeting() {
    begin(side_ == SocketSide::caller ? Stage::greeting : Stage::hearing);
}

// A client that dials again is answered once its older connection has ended.
bool Handshake::may_greet() {
    if (!peer_ || !peer_->said.client) return true;
    if (session_ == nullptr) {
        session_ = context_->generations->admit(*peer_->said.client, channel_.name());
        begin(Stage::greeting);
    }
    if (session_->may_connect(channel_.name())) return true;
    if (deadline_.passed())
        throw Error(Errc::timeout, channel_.name(), "the client's older connection has not ended",
                    "poll the lane of every connection");
    return false;
}

bool Handshake::greet() {
    if (!may_greet()) return false;
    endpoint_ = std::make_unique<Endpoint>(*context_,
                                           LaneOfEndpoint{lane_.lane, std::move(lane_.reservation)},
                                           channel_.local_address());
    Hello mine = endpoint_->hello();
    mine.said.client = client_;
    if (peer_) check_compatible(mine, *peer_, channel_.name());
    channel_.say(FrameType::hello, encode_hello(mine));
    begin(peer_ ? Stage::connecting : Stage::hearing);
    return true;
}

bool Handshake::hear() {
    const auto frame = channel_.receive(FrameType::hello, deadline_);
    if (!frame) return false;
    peer_ = parse_hello(frame->body, channel_.name());
    if (endpoint_ == nullptr) {
        begin(Stage::greeting);
        return true;
    }
    check_compatible(endpoint_->hello(), *peer_, channel_.name());
    begin(Stage::connecting);
    return true;
}

// In a thread where it takes long: a first connection of two processes, a peer that has stopped.
bool Handshake::has_connected() {
    if (!connecting_) {
        if (endpoint_->connect_soon(*peer_)) return true;
        connecting_.emplace([endpoint = endpoint_.get(), peer = *peer_, until = deadline_] {
            endpoint->connect(peer, until);
        });
    }
    if (!connecting_->is_over()) return false;
    connecting_->get();
    return true;
}

bool Handshake::connect() {
    try {
        if (!has_connected()) return false;
    } catch (const Error& error) {
        if (!is_silence(error)) throw;
        reason_ = error;
        begin(Stage::failing);
        return true;
    }
    channel_.say(FrameType::ready, {});
    begin(Stage::readying);
    return true;
}

bool Handshake::hear_reason() {
    try {
        if (!channel_.receive(FrameType::ready, deadline_)) return false;
    } catch (const Error& told) {
        if (!is_silence(told)) throw;
    }
    throw *reason_;
}

bool Handshake::hear_ready() {
    if (!channel_.receive(FrameType::ready, deadline_)) return false;
    log::debug("{}: connected to process {} of user {} over {}", channel_.name(), peer_->process,
               peer_->user, peer_->device_name);
    stage_ = Stage::met;
    return false;
}

void Handshake::add_to(WaitList& list) const {
    if (stage_ == Stage::connecting) return list.add(connecting_->descriptor());
    if (stage_ == Stage::greeting) return list.add(Deadline::after(kForTheOlder));
    list.add(channel_.socket().get());
    list.add(deadline_);
}

}  // namespace verbatim
