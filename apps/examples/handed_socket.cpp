// A connection over a socket that the program has connected by itself: two processes, joined by
// socketpair(), talk in lines of their own first and by Verbatim afterwards.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <span>
#include <string>

#include <verbatim/core/context.hpp>

using namespace verbatim;

int child(int socket) {
    char line[8] = {};
    if (recv(socket, line, 7, MSG_WAITALL) != 7) return 1;  // "UPGRADE": all of it, and no more
    Context context;
    Connection connection = context.connect_over({socket, SocketSide::listener});
    const Message message = connection.receive_message(Deadline::never());
    connection.send_message(2, message.payload(), {}, Deadline::never());
    return connection.peer_name().empty() ? 1 : 0;
}

int main() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 1;
    if (fork() == 0) _exit(child(ends[1]));
    close(ends[1]);
    if (send(ends[0], "UPGRADE", 7, 0) != 7) return 1;
    Context context;
    const std::string text = "over a socket of ours";
    Connection connection = context.connect_over({ends[0], SocketSide::caller});
    connection.send_message(1, std::as_bytes(std::span(text)), {}, Deadline::never());
    const Message echo = connection.receive_message(Deadline::never());
    std::printf("%.*s\n", static_cast<int>(echo.payload().size()),
                reinterpret_cast<const char*>(echo.payload().data()));
    return wait(nullptr) > 0 ? 0 : 1;
}
