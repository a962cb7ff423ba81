// Messages of a link: what a process asks another one's software NIC for, over a local
// SOCK_SEQPACKET socket. One fixed layout for requests and answers; every request gets exactly one
// answer with the same sequence.
//   hello -> welcome (key table file; bell file of a device with an engine thread) | refusal;
//   list_files -> files (numbers and files); get_file -> files;  get_keys -> keys (file of a chunk
//   of the key table);  prove -> proven | refusal;  open_channel -> channel (file of rings, offset
//   of the slot; file of the door, for a peer of this user);  any of them -> refusal;  describe ->
//   description (text file) | refusal, without a hello
// But for two: wake and run have no answer, and may be sent while an answer is awaited.
// A process that may attach to the answering one (ptrace) can read the secret that the welcome
// points to, and proves that it can by `prove`. Only then it is given page files (page_view.hpp),
// which hold whole pages of the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "local_socket.hpp"

namespace verbatim::softnic {

using Nonce = std::array<std::uint8_t, 16>;

// One link of a peer's device to this one. The nonce alone may come again, with another link.
struct PeerSession {
    Nonce nonce{};
    std::uint64_t id = 0;
    Nonce device{};  // by which the peer said hello: the nonce, or that of its first slot
};

enum class LinkOp : std::uint32_t {
    hello = 1,
    welcome,
    refusal,
    list_files,
    get_file,
    files,
    open_channel,
    channel,
    wake,
    describe,
    description,
    get_keys,
    keys,
    prove,
    proven,
    run,
};

inline constexpr std::uint64_t kLinkMagic = 0x76626c696e6b3031;  // "vblink01"
inline constexpr std::uint32_t kLinkVersion = 7;
inline constexpr std::size_t kFilesPerMessage = kFilesPerPacket;

// LinkFeatures, of the answering device: its revokers raise barriers in all processes that take
// part (membarrier.hpp).
inline constexpr std::uint32_t kRaisesBarriers = 1;

struct LinkMessage {
    // These first 16 bytes keep their meaning in every version.
    std::uint64_t magic = kLinkMagic;
    std::uint32_t version = kLinkVersion;
    LinkOp op = LinkOp::refusal;
    std::uint64_t sequence = 0;
    std::uint32_t status = 0;           // refusal: an Errc
    std::uint32_t count = 0;            // files: how many
    std::uint32_t from_queue_pair = 0;  // open_channel: the asking side's
    std::uint32_t to_queue_pair = 0;    // open_channel, wake, run: the answering side's
    // get_file: which; list_files: numbers above this one; channel: where its slot is
    std::uint64_t file = 0;
    Nonce from{}, to{};          // hello, welcome
    std::uint32_t features = 0;  // welcome: LinkFeatures
    std::uint32_t chunk = 0;     // get_keys: which; channel: the door's number, 0: none
    // Welcome: where in the answering process a secret lies. Prove: what was read there.
    std::uint64_t secret_at = 0;
    Nonce secret{};
    std::array<std::uint64_t, kFilesPerMessage> files{};
    std::array<char, 192> text{};  // refusal: a sentence, NUL padded

    std::string sentence() const;
    void set_sentence(const std::string& sentence) noexcept;
};
static_assert(std::is_trivially_copyable_v<LinkMessage>);

// no_descriptors: the message is right, but this process has too few for what came with it.
enum class Received : std::uint8_t {
    message,
    nothing,
    closed,
    malformed,
    no_descriptors,
    other_version
};

// Sends without blocking. False: the peer is gone or does not read.
bool send_message(int socket, const LinkMessage& message, std::span<const int> files = {}) noexcept;
// Reads one message if there is one. Descriptors that came with it are appended to `files`.
Received receive_message(int socket, LinkMessage& message, std::vector<Descriptor>& files);

Nonce random_nonce();

}  // namespace verbatim::softnic
