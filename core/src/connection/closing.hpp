// The close of a connection by its program: everything that was accepted is done, then the peer is
// told. Threads: the lane's.
#pragma once

#include <verbatim/core/connection.hpp>

namespace verbatim {

class Closing {
  public:
    explicit Closing(Connection::Impl& impl) noexcept : impl_(impl) {}

    void begin() noexcept;
    // One look. True: nothing is left to wait for, or it would be in vain.
    bool go_on(unsigned round = 0) noexcept;
    // Looks until that is so, or the limit has passed.
    void wait(Deadline limit) noexcept;
    bool is_over() const noexcept { return is_over_; }
    // Closes by policy what the lane found idle, unless it is not. The program's object stays, and
    // says why it ended.
    void end_idle() noexcept;

  private:
    bool look(unsigned round) noexcept;
    Errc drain() noexcept;
    Errc take_back() noexcept;
    void say_bye() noexcept;

    Connection::Impl& impl_;
    Deadline until_{};
    bool has_said_bye_ = false, is_over_ = false;
    bool leaves_messages_ = false;  // that the program has not taken
};

}  // namespace verbatim
