// A context and its only connection, for ends over Verbatim's public API; `scale/` has many.
#pragma once

#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/core/context.hpp>

#include "../subject.hpp"

namespace verbatim::bench {

inline constexpr unsigned kRoundsPerLook = 4096;  // polls between two looks at the peer's health

// The defaults, but for the device and a warning where no huge pages are reserved.
inline Config defaults() {
    setenv("VERBATIM_LOG", "error", 0);
    Config config;
    config.device.kind = "softnic";
    return config;
}

inline void require(Connection& connection, Errc error) {
    if (error == Errc::ok || error == Errc::would_block) return;
    connection.check();
    throw Error(error, "benchmark", std::string(describe(error)));
}

// A context and its only connection.
class Link {
  public:
    // `port`: of the software NIC.
    explicit Link(Side& side, const char* port = "shm")
        : context_(configured(port)),
          connection_(meet(side)),
          rounds_per_look_(std::string_view(port) == "shm" ? kRoundsPerLook : 1) {}
    Connection& operator*() noexcept { return connection_; }
    Connection* operator->() noexcept { return &connection_; }

    void progress() { require(connection_, connection_.progress()); }
    void finish() {
        progress();  // posts an open batch
        Errc error = Errc::ok;
        while ((error = connection_.try_flush()) == Errc::would_block) progress();
        require(connection_, error);
    }
    void send(std::uint8_t kind, std::span<const std::byte> bytes) {
        Errc error = Errc::ok;
        while ((error = connection_.try_send(kind, bytes)) == Errc::would_block) progress();
        require(connection_, error);
    }
    void batch(std::uint8_t kind, std::span<const std::byte> bytes) {
        Errc error = Errc::ok;
        while ((error = connection_.try_batch(kind, bytes)) == Errc::would_block) progress();
        require(connection_, error);
    }
    Message receive() {
        Message message;
        for (unsigned round = 1;; ++round) {
            const Errc error = connection_.try_receive(message);
            if (error == Errc::ok) return message;
            if (error != Errc::would_block || round % rounds_per_look_ == 0) progress();
        }
    }
    void write(const std::byte* from, std::size_t bytes, const RemoteExtent& to,
               std::size_t offset) {
        for (std::size_t done = 0; done < bytes;) {
            std::size_t written = 0;
            const Errc error = connection_.try_write(
                from + done, bytes - done, to.address + offset + done, to.remote_key, written);
            require(connection_, error);
            done += error == Errc::ok ? bytes - done : written;
            if (error == Errc::would_block) progress();
        }
    }

  private:
    static Config configured(const char* port) {
        Config config = defaults();
        config.softnic.port = port;
        return config;
    }
    Connection meet(Side& side) {
        if (!side.first()) return context_.connect("127.0.0.1:" + side.exchange(""));
        Listener listener = context_.listen("127.0.0.1:0");
        (void)side.exchange(std::to_string(listener.port()));
        return listener.accept(Deadline::after(std::chrono::seconds(10)));
    }

    Context context_;
    Connection connection_;
    const unsigned rounds_per_look_;  // by a wire, nothing comes without a look
};

}  // namespace verbatim::bench
