// A descriptor through a socket, which makes another one of it for the receiver.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <stdexcept>

namespace verbatim::interop {

inline void send_descriptor(int socket, int descriptor) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof descriptor)]{};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1;
    message.msg_control = room, message.msg_controllen = sizeof room;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(socket, &message, 0) != 1) throw std::runtime_error("sendmsg failed");
}

inline int receive_descriptor(int socket) {
    char byte = 0;
    iovec data{&byte, 1};
    int descriptor = -1;
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof descriptor)]{};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1;
    message.msg_control = room, message.msg_controllen = sizeof room;
    if (recvmsg(socket, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr)
        throw std::runtime_error("recvmsg failed");
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

}  // namespace verbatim::interop
