// Serialize, copy, parse: protobuf's part of a transfer, as its documentation does it and as fast
// as it can be made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include <google/protobuf/arena.h>

#include "../memory/wire.hpp"

namespace bench_graph {

// A message in a protobuf arena whose block is warm and reused.
template <class Message>
class WarmMessage {
  public:
    explicit WarmMessage(std::size_t bytes) : block_(bytes), arena_(options()) { reset(); }
    void reset() {
        arena_.Reset();
        message_ = google::protobuf::Arena::CreateMessage<Message>(&arena_);
    }
    Message& message() const noexcept { return *message_; }

  private:
    google::protobuf::ArenaOptions options() const {
        google::protobuf::ArenaOptions result;
        result.initial_block = reinterpret_cast<char*>(block_.data());
        result.initial_block_size = block_.size();
        return result;
    }

    WarmBlock block_;
    google::protobuf::Arena arena_;
    Message* message_ = nullptr;
};

// A string out, a fresh message in; the heap is warm. The form that protobuf's tutorial teaches.
template <class Message>
class PlainProtobufWire {
  public:
    PlainProtobufWire() = default;
    // Needs no sizes: strings and messages grow.
    PlainProtobufWire(std::size_t, std::size_t) {}

    const Message& transfer(const Message& message) {
        received_.reset();
        if (!message.SerializeToString(&sent_))
            throw std::runtime_error("protobuf cannot serialize");
        arrived_.assign(sent_);  // the wire
        received_ = std::make_unique<Message>();
        if (!received_->ParseFromString(arrived_))
            throw std::runtime_error("protobuf cannot parse its own message");
        return received();
    }
    const Message& received() const noexcept { return *received_; }
    std::size_t bytes() const noexcept { return sent_.size(); }

  private:
    std::string sent_, arrived_;
    std::unique_ptr<Message> received_;
};

// Warm buffers, and messages in an arena that is emptied as a whole.
template <class Message>
class ProtobufWire {
  public:
    // Room for the serialized message, and for what parsing it allocates.
    ProtobufWire(std::size_t message_bytes, std::size_t parsed_bytes)
        : wire_(message_bytes), received_(parsed_bytes) {}

    const Message& transfer(const Message& message) {
        bytes_ = message.ByteSizeLong();
        if (bytes_ > wire_.capacity()) throw std::runtime_error("message longer than expected");
        message.SerializeWithCachedSizesToArray(
            reinterpret_cast<std::uint8_t*>(wire_.send_buffer()));
        received_.reset();
        if (!received_.message().ParseFromArray(wire_.carry(bytes_), static_cast<int>(bytes_)))
            throw std::runtime_error("protobuf cannot parse its own message");
        return received();
    }
    const Message& received() const noexcept { return received_.message(); }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    Wire wire_;
    WarmMessage<Message> received_;
    std::size_t bytes_ = 0;
};

}  // namespace bench_graph
