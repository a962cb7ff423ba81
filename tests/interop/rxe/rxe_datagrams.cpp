// Runs one end of datagrams against another process of this program, maybe at another device: each
// asks once. Arguments: index of the GID, TCP port, and the peer's address at the end that calls.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "datagram_end.hpp"

int main(int count, char** arguments) try {
    using namespace verbatim::interop;
    must(count == 3 || count == 4, "usage: rxe_datagrams GID PORT [PEER]");
    const char* const address = count == 4 ? arguments[3] : nullptr;
    DatagramEnd end(std::atoi(arguments[1]));
    SideChannel peer(static_cast<std::uint16_t>(std::atoi(arguments[2])), address);
    end.meet(peer);
    for (const bool asks : {address != nullptr, address == nullptr}) {
        asks ? end.ask() : end.answer(peer);
        peer.exchange('d');
    }
    return 0;
} catch (const std::exception& failure) {
    std::printf("%s\n", failure.what());
    return 1;
}
