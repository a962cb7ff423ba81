// Byte streams over queue pairs that the connection manager (librdmacm) makes. One thread carries
// them: the program has one end of a socket pair, and the bytes of the other end go as messages.
// Control path. Threads: any; a call or a listener belongs to one at a time.
#pragma once

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <verbatim/driver/descriptor.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim::rdma {

struct CmStream {
    Descriptor socket;      // a connected stream socket
    std::string peer_name;  // "10.0.0.2:7471 (rdma_cm)"
    // By which address the peer reaches this side: IPv6, or IPv4-mapped.
    std::array<std::uint8_t, 16> local_address{};
};

class CmMailbox;
class CmBridge;

// A connection that is being made.
class CmPending {
  public:
    explicit CmPending(std::shared_ptr<CmMailbox> box) noexcept : box_(std::move(box)) {}
    // Readable once the stream, or the reason of its failure, is there.
    int file() const noexcept;
    // Nothing: not yet. Throws Error: connection_refused, timeout, unsupported (the address leads
    // to another device), peer_lost, device_error.
    std::optional<CmStream> take();

  private:
    std::shared_ptr<CmMailbox> box_;
};

class CmListener {
  public:
    CmListener(std::shared_ptr<CmBridge> bridge, std::shared_ptr<CmMailbox> box, void* identifier,
               std::uint16_t port) noexcept;
    ~CmListener();
    CmListener(const CmListener&) = delete;
    CmListener& operator=(const CmListener&) = delete;
    // Readable while a caller waits.
    int file() const noexcept;
    // The next caller; nothing where none waits.
    std::optional<CmStream> accept();
    std::uint16_t port() const noexcept { return port_; }

  private:
    std::shared_ptr<CmBridge> bridge_;
    std::shared_ptr<CmMailbox> box_;
    void* identifier_;
    std::uint16_t port_;
};

class CmStreams {
  public:
    // `device`: the name of the one that addresses must lead to. `probe_after`: a stream on which
    // nothing went for so long sends an empty write, so that a machine that vanished is noticed; 0:
    // none does. Throws Error(no_device): there is no connection manager.
    explicit CmStreams(std::string device, std::chrono::milliseconds probe_after = {});
    // Ends when all streams have ended, or after two seconds.
    ~CmStreams();
    CmStreams(const CmStreams&) = delete;
    CmStreams& operator=(const CmStreams&) = delete;
    // Does not wait. Throws Error.
    CmPending call(const sockaddr& to, std::chrono::milliseconds limit);
    // `limit`: for callers to complete their connection. At most 64 callers wait, others are
    // rejected. Throws Error: device_error (port in use), unsupported (another device's address).
    std::unique_ptr<CmListener> listen(const sockaddr& at, std::chrono::milliseconds limit);

  private:
    std::shared_ptr<CmBridge> bridge_;
};

}  // namespace verbatim::rdma
