// Cap'n Proto's part of a transfer: one reused segment, one copy, a reader in place.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <optional>
#include <stdexcept>

#include "../memory/wire.hpp"

namespace bench_graph {

class WordsWire {
  public:
    explicit WordsWire(std::size_t capacity) : wire_(capacity) {}
    ~WordsWire() noexcept {}  // a reader's destructor could throw
    WordsWire(const WordsWire&) = delete;
    WordsWire& operator=(const WordsWire&) = delete;

    // `write` fills a builder of the message.
    template <class Message, class Write>
    void transfer(Write write) {
        const auto words = kj::arrayPtr(reinterpret_cast<capnp::word*>(wire_.send_buffer()),
                                        wire_.capacity() / sizeof(capnp::word));
        capnp::MallocMessageBuilder builder(words);  // leaves the segment zeroed, as it wants it
        write(builder.initRoot<Message>());
        const auto segments = builder.getSegmentsForOutput();
        if (segments.size() != 1) throw std::runtime_error("capnproto: the segment is too small");
        bytes_ = segments[0].size() * sizeof(capnp::word);
        wire_.carry(bytes_);
        open();
    }
    // Of the last transfer.
    template <class Message>
    typename Message::Reader message() {
        return reader_->getRoot<Message>();
    }
    std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    void open() {
        capnp::ReaderOptions options;
        options.traversalLimitInWords = std::uint64_t{1} << 40;
        segment_[0] = kj::arrayPtr(reinterpret_cast<const capnp::word*>(wire_.received()),
                                   bytes_ / sizeof(capnp::word));
        reader_.emplace(kj::arrayPtr(segment_, 1), options);
    }
    Wire wire_;
    std::uint64_t bytes_ = 0;
    kj::ArrayPtr<const capnp::word> segment_[1];
    std::optional<capnp::SegmentArrayMessageReader> reader_;
};

}  // namespace bench_graph
