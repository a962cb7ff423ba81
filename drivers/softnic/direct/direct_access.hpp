// Direct access of a queue pair: the program stores into memory that the peer lends, by the mapping
// that the requester would copy to. The send gate is held from open() to close(), so what is posted
// meanwhile is executed by close(), and no engine touches the access word. Protocol:
// docs/revocation.md. Threads: any; close() has an effect in the thread that opened.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <verbatim/driver/device.hpp>

#include "../../softqueue/gate.hpp"
#include "../engine/requester.hpp"
#include "../host/shared_memory.hpp"

namespace verbatim::softnic {

class DirectAccess final {
  public:
    // What was posted while the gate was held.
    struct Rest {
        void (*run)(void* context) noexcept;
        void* context;
    };
    // All of them outlive it.
    DirectAccess(Gate& send_gate, Requester& requester, const Rest& rest) noexcept
        : gate_(send_gate), requester_(requester), rest_(rest) {}

    // As QueuePairHandle::open_remote() and close_remote().
    std::byte* open(std::uint64_t address, std::size_t bytes, std::uint32_t remote_key) noexcept;
    void close() noexcept;

  private:
    bool inherited() const noexcept { return generation_ != fork_generation(); }
    void leave() noexcept;

    Gate& gate_;
    Requester& requester_;
    const Rest rest_;
    const std::uint64_t generation_ = fork_generation();
    RemoteMemory* memory_ = nullptr;         // of the thread inside the gate
    std::atomic<std::thread::id> thread_{};  // whose span is open
};

}  // namespace verbatim::softnic
