// Sending and receiving of link messages with their descriptors.
#include "link_message.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cancellation.hpp"
#include "own_threads.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * kFilesPerMessage);

void take_descriptors(msghdr& header, std::vector<Descriptor>& files) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            files.emplace_back(fd);
        }
    }
}

Received judge(const LinkMessage& message, std::size_t bytes, int flags) noexcept {
    constexpr std::size_t kCommon = offsetof(LinkMessage, sequence);
    if (bytes < kCommon || message.magic != kLinkMagic) return Received::malformed;
    if (message.version != kLinkVersion) return Received::other_version;
    if (bytes != sizeof message || (flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        return Received::malformed;
    return Received::message;
}

}  // namespace

std::string LinkMessage::sentence() const {
    return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

void LinkMessage::set_sentence(const std::string& sentence) noexcept {
    text = {};
    std::copy_n(sentence.begin(), std::min(sentence.size(), text.size()), text.begin());
}

bool send_message(int socket, const LinkMessage& message, std::span<const int> files) noexcept {
    iovec part{const_cast<LinkMessage*>(&message), sizeof message};
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!files.empty()) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(files.size_bytes());
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(files.size_bytes());
        std::memcpy(CMSG_DATA(rights), files.data(), files.size_bytes());
    }
    const WithoutCancellation none;
    for (;;) {
        const ssize_t sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        return sent == static_cast<ssize_t>(sizeof message);
    }
}

Received receive_message(int socket, LinkMessage& message, std::vector<Descriptor>& files) {
    iovec part{&message, sizeof message};
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const WithoutCancellation none;
    ssize_t got;
    // A peer that closed before it had read all is reported once, in front of what it had sent.
    bool reset = false;
    do {
        got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? Received::nothing : Received::closed;
    if (got == 0) return Received::closed;
    take_descriptors(header, files);
    return judge(message, static_cast<std::size_t>(got), header.msg_flags);
}

bool wait_readable(int socket, Instant deadline) noexcept {
    const WithoutCancellation none;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        pollfd entry{socket, POLLIN, 0};
        const int timeout = static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30));
        int ready;
        {
            const AtRest rest;
            ready = poll(&entry, 1, timeout);
        }
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

Nonce random_nonce() {
    Nonce nonce;
    std::size_t got = 0;
    while (got < nonce.size()) {
        const ssize_t more = getrandom(nonce.data() + got, nonce.size() - got, 0);
        if (more > 0) got += static_cast<std::size_t>(more);
    }
    return nonce;
}

}  // namespace verbatim::softnic
