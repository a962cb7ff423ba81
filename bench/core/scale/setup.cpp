// Connections that are set up one behind the other, some at a time; taking them down is not timed.
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <vector>

#include "../workloads.hpp"
#include "many.hpp"

namespace verbatim::bench {
namespace {

// TCP sockets, accepted by the first side.
class Sockets {
  public:
    explicit Sockets(Side& side) : side_(side) {
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener_ = open();
        socklen_t bytes = sizeof address_;
        require(bind(listener_, address(), bytes) == 0 && ::listen(listener_, SOMAXCONN) == 0 &&
                getsockname(listener_, address(), &bytes) == 0);
        const std::string theirs = side.exchange(std::to_string(address_.sin_port));
        if (!side.first()) address_.sin_port = static_cast<in_port_t>(std::stoi(theirs));
    }
    ~Sockets() {
        keep(0);
        close(listener_);
    }
    Sockets(const Sockets&) = delete;
    Sockets& operator=(const Sockets&) = delete;

    void add(unsigned count) {
        for (unsigned i = 0; i < count; ++i) files_.push_back(add_one());
        (void)side_.exchange("added");
    }
    void keep(unsigned count) noexcept {
        for (; files_.size() > count; files_.pop_back()) close(files_.back());
    }

  private:
    static void require(bool good) {
        if (!good) throw std::system_error(errno, std::generic_category(), "socket");
    }
    static int open() {
        const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        require(file >= 0);
        return file;
    }
    sockaddr* address() noexcept { return reinterpret_cast<sockaddr*>(&address_); }
    int add_one() {
        const int file =
            side_.first() ? accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC) : open();
        require(file >= 0);
        require(side_.first() || connect(file, address(), sizeof address_) == 0);
        return file;
    }

    Side& side_;
    sockaddr_in address_{};
    int listener_ = -1;
    std::vector<int> files_;
};

// A key that both sides know, as a file of this process.
class KeyFile {
  public:
    KeyFile() : file_(memfd_create("key", MFD_CLOEXEC)) {
        const std::string key = "cc" + std::string(62, '5');
        if (file_ < 0 || fchmod(file_, 0600) != 0 || write(file_, key.data(), key.size()) != 64)
            throw std::system_error(errno, std::generic_category(), "key file");
    }
    ~KeyFile() { close(file_); }
    KeyFile(const KeyFile&) = delete;
    KeyFile& operator=(const KeyFile&) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

  private:
    int file_;
};

// Sides that prove themselves by it.
class Proven : private KeyFile, public Many {
  public:
    explicit Proven(Side& side) : Many(side, with(path())) {}

  private:
    static Config with(const std::string& key_file) {
        Config config = default_config();
        config.connect.key_file = key_file;
        return config;
    }
};

// One connection stays: with the first one comes what all others share.
template <class Connections>
void set_up(Side& side, const Case& of) {
    Connections connections(side);
    connections.add(1);
    std::uint64_t count = 0, took = 0;
    for (bool goes_on = true; goes_on;) {
        const std::uint64_t began = __rdtsc();
        connections.add(of.connections);
        took += __rdtsc() - began;
        count += of.connections;
        connections.keep(1);
        // The first side says when it is enough.
        goes_on = side.exchange(side.first() && took >= side.budget_ticks() ? "stop" : "go on") !=
                      "stop" &&
                  (!side.first() || took < side.budget_ticks());
    }
    const double seconds = static_cast<double>(took) / ticks_per_microsecond() / 1e6;
    if (side.first()) side.report_rate(static_cast<double>(count) / seconds);
    (void)side.exchange("done");
}

}  // namespace

void add_setups(Subjects& all) {
    add(all, "floor", set_up<Sockets>, {&kSetup});
    add(all, "verbatim.connect", set_up<Many>, {&kSetup});
    add(all, "verbatim.connect_by_key", set_up<Proven>, {&kSetup});
}

}  // namespace verbatim::bench
