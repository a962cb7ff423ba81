// cereal's binary archives over plain memory. The stream buffer only copies: no growth, no get or
// put area to refill, which is faster than the std::stringstream of cereal's documentation.
#pragma once

#include <cstddef>
#include <cstring>
#include <istream>
#include <ostream>
#include <streambuf>

#include <cereal/archives/binary.hpp>

#include "../memory/wire.hpp"

namespace bench_graph {

class MemoryBuffer final : public std::streambuf {
  public:
    void write_to(std::byte* data, std::size_t bytes) noexcept {
        start_ = at_ = data, end_ = data + bytes;
    }
    void read_from(const std::byte* data, std::size_t bytes) noexcept {
        write_to(const_cast<std::byte*>(data), bytes);  // xsgetn() does not write
    }
    std::size_t position() const noexcept { return static_cast<std::size_t>(at_ - start_); }

  protected:
    std::streamsize xsputn(const char* from, std::streamsize count) override {
        if (end_ - at_ < count) return 0;
        std::memcpy(at_, from, static_cast<std::size_t>(count));
        at_ += count;
        return count;
    }
    std::streamsize xsgetn(char* to, std::streamsize count) override {
        if (end_ - at_ < count) return 0;
        std::memcpy(to, at_, static_cast<std::size_t>(count));
        at_ += count;
        return count;
    }

  private:
    std::byte* start_ = nullptr;
    std::byte* at_ = nullptr;
    std::byte* end_ = nullptr;
};

class CerealWire {
  public:
    explicit CerealWire(std::size_t capacity) : wire_(capacity) {}

    // Writes `from` and reads it into `to`.
    template <class From, class To>
    void transfer(const From& from, To& to) {
        buffer_.write_to(wire_.send_buffer(), wire_.capacity());
        std::ostream out(&buffer_);
        cereal::BinaryOutputArchive writer(out);
        writer(from);
        bytes_ = buffer_.position();
        buffer_.read_from(wire_.carry(bytes_), bytes_);
        std::istream in(&buffer_);
        cereal::BinaryInputArchive reader(in);
        reader(to);
    }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    Wire wire_;
    MemoryBuffer buffer_;
    std::size_t bytes_ = 0;
};

}  // namespace bench_graph
