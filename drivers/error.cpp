// Texts of the error codes.
#include <verbatim/driver/error.hpp>

#include <array>
#include <cstddef>

namespace verbatim {
namespace {

struct Text {
    std::string_view name, sentence;
};

// In the order of Errc.
constexpr std::array<Text, 33> kTexts{{
    {"ok", "done"},
    {"would_block", "no room now; poll and try again"},
    {"invalid_argument", "the request contradicts itself or the queue's limits"},
    {"invalid_prepared", "the prepared operation's queue pair or memory region is gone"},
    {"message_too_large", "more bytes than the queue, the ring or the inline limit takes"},
    {"type_mismatch", "the two sides disagree on a type's layout"},
    {"bad_pointer", "a pointer in the graph is misaligned, freed or was never allocated"},
    {"graph_too_large", "the receiver's arena cannot hold the graph"},
    {"corrupt_message", "received bytes failed a check; nothing was handed out"},
    {"timeout", "the deadline passed"},
    {"out_of_memory", "no memory left"},
    {"unsupported", "this device or type cannot do that"},
    {"config_error", "the configuration is wrong"},
    {"would_deadlock", "a blocking call in a handler of its own lane"},
    {"local_length", "the request's elements and length disagree"},
    {"local_queue_pair", "the device refused a work request or a doorbell"},
    {"local_protection", "a local key does not cover the bytes"},
    {"flushed", "retired without effect because the queue pair is in error"},
    {"remote_invalid", "the peer refused the request's form"},
    {"remote_access", "a remote key does not cover the bytes or forbids the access"},
    {"remote_operation", "the peer could not complete the request"},
    {"retry_exceeded", "the peer does not answer"},
    {"rnr_exceeded", "the peer posted no receive in time"},
    {"aborted", "the device gave up on the request"},
    {"connection_refused", "nobody listens at that address"},
    {"version_mismatch", "the peer speaks another version of the protocol"},
    {"protocol_error", "the peer sent something the protocol does not allow"},
    {"peer_lost", "the peer died or closed the connection"},
    {"permission_denied", "the peer's user or this process's rights forbid it"},
    {"idle", "the connection was idle and was closed"},
    {"no_device", "no such device on this machine"},
    {"device_error", "the device or its driver failed"},
    {"unknown", "unknown error code"},
}};

const Text& text_of(Errc code) noexcept {
    const auto index = static_cast<std::size_t>(code);
    return index < kTexts.size() ? kTexts[index] : kTexts.back();
}

}  // namespace

std::string_view describe(Errc code) noexcept { return text_of(code).sentence; }
std::string_view name(Errc code) noexcept { return text_of(code).name; }

}  // namespace verbatim
