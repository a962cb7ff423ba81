// The way of a peer's message from side to side: serialized into one warm buffer, copied to
// another.
#pragma once

#include <cstring>

#include "warm_memory.hpp"

namespace bench_graph {

class Wire {
  public:
    explicit Wire(std::size_t capacity) : send_(capacity), receive_(capacity) {}
    std::byte* send_buffer() const noexcept { return send_.data(); }
    std::size_t capacity() const noexcept { return send_.size(); }
    const std::byte* received() const noexcept { return receive_.data(); }
    // The received copy of the first `bytes` bytes of the send buffer.
    const std::byte* carry(std::size_t bytes) const noexcept {
        std::memcpy(receive_.data(), send_.data(), bytes);
        return receive_.data();
    }

  private:
    WarmBlock send_;
    WarmBlock receive_;
};

}  // namespace bench_graph
