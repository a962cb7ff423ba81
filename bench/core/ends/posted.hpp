// Messages over libraries that send from given memory and receive into memory posted beforehand.
//
// A library is a class with a constructor (Side&, const Case&) and these members:
//     void send(unsigned slot, std::byte* from, std::size_t bytes);
//     void receive(unsigned slot, std::byte* to, std::size_t bytes);
//     bool sent(unsigned slot), received(unsigned slot);    that of this slot is done, or none was
//     void progress(), wait();                              wait: may sleep
//     void connect();                                       once receives are posted
#pragma once

#include <vector>

#include "../subject.hpp"

namespace verbatim::bench {

template <class Library>
class PostedEnd {
  public:
    PostedEnd(Side& side, const Case& of)
        : window_(of.window),
          bytes_(of.bytes),
          stride_((of.bytes + 63) / 64 * 64),
          out_(window_ * stride_),
          in_(window_ * stride_),
          library_(side, of) {
        for (unsigned slot = 0; slot < window_; ++slot) post_receive(slot);
        library_.connect();
    }

    std::byte* claim() {
        while (!library_.sent(next_out_)) library_.progress();
        return out_.data() + next_out_ * stride_;
    }
    void post() {
        library_.send(next_out_, out_.data() + next_out_ * stride_, bytes_);
        next_out_ = after(next_out_);
    }
    const std::byte* take() {
        while (!library_.received(next_in_)) library_.wait();
        return in_.data() + next_in_ * stride_;
    }
    void release() {
        post_receive(next_in_);
        next_in_ = after(next_in_);
    }
    void progress() { library_.progress(); }
    void finish() {
        for (unsigned slot = 0; slot < window_; ++slot)
            while (!library_.sent(slot)) library_.progress();
    }

  private:
    unsigned after(unsigned slot) const noexcept { return slot + 1 == window_ ? 0 : slot + 1; }
    void post_receive(unsigned slot) {
        library_.receive(slot, in_.data() + slot * stride_, bytes_);
    }

    unsigned window_;
    std::size_t bytes_, stride_;
    std::vector<std::byte> out_, in_;
    unsigned next_out_ = 0, next_in_ = 0;
    Library library_;
};

}  // namespace verbatim::bench
