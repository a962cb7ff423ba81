// FlatBuffers' part of a transfer: one reused builder, one copy, one verification.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <stdexcept>

#include "../memory/warm_memory.hpp"

namespace bench_graph {

class FlatWire {
  public:
    explicit FlatWire(std::size_t capacity) : builder_(capacity), arrived_(capacity) {}

    // `write` writes a message by a builder, and returns its offset. The verified copy.
    template <class Message, class Write>
    const Message& transfer(Write write) {
        builder_.Clear();
        builder_.Finish(write(builder_));
        bytes_ = builder_.GetSize();
        if (bytes_ > arrived_.size()) throw std::runtime_error("flatbuffers: too long");
        std::memcpy(arrived_.data(), builder_.GetBufferPointer(), bytes_);
        constexpr flatbuffers::uoffset_t kDepth = 64, kTables = 10'000'000;
        flatbuffers::Verifier verifier(data(), bytes_, kDepth, kTables);
        if (!verifier.VerifyBuffer<Message>()) throw std::runtime_error("flatbuffers: damaged");
        return *flatbuffers::GetRoot<Message>(data());
    }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    const std::uint8_t* data() const noexcept {
        return reinterpret_cast<const std::uint8_t*>(arrived_.data());
    }
    flatbuffers::FlatBufferBuilder builder_;
    WarmBlock arrived_;
    std::size_t bytes_ = 0;
};

}  // namespace bench_graph
