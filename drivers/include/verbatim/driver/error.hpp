// Errors of every layer are a code on the data path, and an exception with cause, object and remedy
// on the control path. Codes are grouped by what the caller must rebuild, which is the only thing
// it can decide on.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace verbatim {

// The part that must be rebuilt after an error.
enum class Scope : std::uint8_t { none, request, connection, device };

// Results of data-path calls, and the code inside every Error.
enum class [[nodiscard]] Errc : std::uint8_t{
    ok = 0,
    // Back-pressure: nothing happened, try again after polling.
    would_block,
    // -- request: this call or object is refused, everything else goes on --
    invalid_argument,   // the request contradicts itself or the queue's limits
    invalid_prepared,   // a prepared operation whose queue pair or memory region is gone
    message_too_large,  // more bytes than the queue, the ring or the inline limit takes
    type_mismatch,      // the two sides disagree on a type's layout
    bad_pointer,        // a pointer in a graph is misaligned, freed or never allocated
    graph_too_large,    // the receiver's arena cannot hold the graph
    corrupt_message,    // received bytes failed a check; nothing was returned
    timeout,            // a deadline passed
    out_of_memory,      // an arena or a queue could not grow
    unsupported,        // this device or type cannot do that
    config_error,       // a configuration file or value is wrong
    would_deadlock,     // a blocking call in a handler, which its own lane would have to end
    // -- connection: the queue pair is in error, connect again --
    local_length,        // a work request's elements and length disagree (CQE syndrome 0x01)
    local_queue_pair,    // the device refused a work request or a doorbell (0x02)
    local_protection,    // a local key does not cover the bytes (0x04)
    flushed,             // retired without effect because the queue pair is in error (0x05)
    remote_invalid,      // the peer refused the request's form (0x12)
    remote_access,       // a remote key does not cover the bytes or forbids it (0x13)
    remote_operation,    // the peer could not complete the request (0x14)
    retry_exceeded,      // the peer does not answer (0x15)
    rnr_exceeded,        // the peer posted no receive in time (0x16)
    aborted,             // the device gave up (0x22) or reported an unknown syndrome
    connection_refused,  // no process listens at that address
    version_mismatch,    // the peer speaks another version of a protocol
    protocol_error,      // the peer sent something the protocol does not allow
    peer_lost,           // the peer died or closed
    permission_denied,   // the peer's user, or this process's rights, forbid it
    idle,                // nothing went over the connection for the time that the program has set
    // -- device: open it again, or choose another --
    no_device,     // no such device on this machine
    device_error,  // the device or its driver failed
};

// The part that the caller must rebuild after `code`. Errc::ok and would_block need nothing.
constexpr Scope scope_of(Errc code) noexcept {
    if (code <= Errc::would_block) return Scope::none;
    if (code < Errc::local_length) return Scope::request;
    if (code < Errc::no_device) return Scope::connection;
    return Scope::device;
}

// A short sentence for the code alone, e.g. "the peer does not answer". Static storage.
std::string_view describe(Errc code) noexcept;
// The remedy for an error of which only the code is known. Empty for ok. Static storage.
constexpr std::string_view remedy_for(Errc code) noexcept {
    switch (code) {
        case Errc::ok:
            return {};
        case Errc::would_block:
            return "poll, then try again";
        case Errc::invalid_argument:
            return "correct the call";
        case Errc::invalid_prepared:
            return "prepare the operation again";
        case Errc::message_too_large:
            return "send less at once, or make the ring or queue larger";
        case Errc::would_deadlock:
            return "use calls that do not block in handlers";
        case Errc::type_mismatch:
            return "build both sides from the same headers";
        case Errc::bad_pointer:
            return "mend the pointer";
        case Errc::graph_too_large:
            return "raise max_bytes of the receiving arena";
        case Errc::corrupt_message:
            return "connect again; if it comes again, report it";
        case Errc::timeout:
            return "is the peer stopped or overloaded? Try again, or set a later deadline";
        case Errc::out_of_memory:
            return "free memory, or raise the limit that the cause names";
        case Errc::unsupported:
            return "use another device, or another way";
        case Errc::config_error:
            return "correct the setting";
        case Errc::local_length:
            return "correct the request, then connect again";
        case Errc::local_queue_pair:
            return "correct the request, then connect again";
        case Errc::local_protection:
            return "register the memory, then connect again";
        case Errc::flushed:
            return "look at the first error of the connection; connect again";
        case Errc::remote_invalid:
            return "correct the request, then connect again";
        case Errc::remote_access:
            return "ask the peer for a key that allows it; connect again";
        case Errc::remote_operation:
            return "look at the peer's log; connect again";
        case Errc::retry_exceeded:
            return "is the peer alive? Connect again";
        case Errc::rnr_exceeded:
            return "have the peer post receives; connect again";
        case Errc::aborted:
            return "connect again; look at the kernel's log";
        case Errc::connection_refused:
            return "start the peer, or correct the address";
        case Errc::version_mismatch:
            return "run the same version on both sides";
        case Errc::protocol_error:
            return "run the same version on both sides; if they are the same, report it";
        case Errc::peer_lost:
            return "start the peer again, then connect";
        case Errc::permission_denied:
            return "run both ends as one user, or allow the access";
        case Errc::idle:
            return "connect again, or raise idle_timeout of [connect]";
        case Errc::no_device:
            return "run: verbatim doctor";
        case Errc::device_error:
            return "run: verbatim doctor; look at the kernel's log (dmesg)";
    }
    return "report it";
}
// The code's name, e.g. "retry_exceeded". Static storage.
std::string_view name(Errc code) noexcept;

// Thrown by control-path calls only. what() is "object: cause; remedy".
class Error : public std::runtime_error {
  public:
    Error(Errc code, std::string object, std::string cause, std::string remedy = {})
        : Error(Whole{}, code, std::move(object), std::move(cause),
                remedy.empty() ? std::string(remedy_for(code)) : std::move(remedy)) {}

    Errc code() const noexcept { return code_; }
    Scope scope() const noexcept { return scope_of(code_); }
    // The thing that failed: "listener 127.0.0.1:7471", "type Package", "arena receive".
    const std::string& object() const noexcept { return object_; }
    const std::string& cause() const noexcept { return cause_; }
    // The remedy for the user, with the exact command where there is one; else that of the code.
    const std::string& remedy() const noexcept { return remedy_; }

  private:
    struct Whole {};
    Error(Whole, Errc code, std::string object, std::string cause, std::string remedy)
        : std::runtime_error(compose(object, cause, remedy)),
          code_(code),
          object_(std::move(object)),
          cause_(std::move(cause)),
          remedy_(std::move(remedy)) {}
    static std::string compose(const std::string& object, const std::string& cause,
                               const std::string& remedy) {
        return object + ": " + cause + (remedy.empty() ? "" : "; " + remedy);
    }

    Errc code_;
    std::string object_, cause_, remedy_;
};

}  // namespace verbatim
