// What tests of authentication share: key files, and an attacker between two sides of a stream.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "authentication/secret_key.hpp"
#include "bootstrap/side_channel.hpp"
#include "core_fault.hpp"

namespace verbatim::test {

// Two key files of a directory that goes with it.
class Keys {
  public:
    Keys() {
        std::string name = std::filesystem::temp_directory_path() / "verbatim_keys.XXXXXX";
        directory_ = mkdtemp(name.data());
        write(one(), 'a');
        write(other(), 'b');
    }
    ~Keys() { std::filesystem::remove_all(directory_); }
    Keys(const Keys&) = delete;
    Keys& operator=(const Keys&) = delete;
    std::string one() const { return directory_ / "one"; }
    std::string other() const { return directory_ / "other"; }

  private:
    static void write(const std::string& path, char digit) {
        std::ofstream(path) << std::string(63, digit) << "1\n";
        chmod(path.c_str(), 0600);
    }
    std::filesystem::path directory_;
};

inline std::shared_ptr<const SecretKey> wrong_key() {
    return std::make_shared<const SecretKey>(SecretKey::Code{});
}

// Stands between a caller and a listener, and may change or add frames. Once.
class Meddler {
  public:
    static constexpr bool by_caller = true, by_listener = false;
    struct Said {
        bool by_caller;
        std::size_t number;  // of the frame in its direction, from 0
        std::vector<std::byte>& bytes;
    };
    // `change`: called with each whole frame, in the attacker's thread.
    explicit Meddler(
        std::uint16_t port, std::function<void(Said&)> change = [](Said&) {})
        : change_(std::move(change)),
          stranger_([this, port](const RawSocket& caller) { run(caller, port); }) {}
    ~Meddler() { stop_ = true; }
    std::uint16_t port() const { return stranger_.port(); }
    // Waits until one of the sides has hung up.
    void stop() {
        const Deadline deadline = Deadline::after(std::chrono::seconds(30));
        while (!is_over_ && !deadline.passed()) std::this_thread::yield();
    }
    std::vector<std::byte> said(bool by) {
        const std::lock_guard lock(mutex_);
        return ways_[by].all;
    }
    // Says that to the other side, as if by this one.
    void inject(bool by, std::span<const std::byte> bytes) {
        const std::lock_guard lock(mutex_);
        injected_[by].assign(bytes.begin(), bytes.end());
    }

  private:
    struct Way {
        std::vector<std::byte> waiting, all;
        std::size_t frames = 0;
    };
    void run(const RawSocket& caller, std::uint16_t port) {
        const RawSocket listener = RawSocket::connected(port);
        while (!stop_) {
            pollfd entries[] = {{listener.fd(), POLLIN, 0}, {caller.fd(), POLLIN, 0}};
            (void)poll(entries, 2, 10);
            if (entries[1].revents != 0 && !pass(by_caller, caller, listener)) break;
            if (entries[0].revents != 0 && !pass(by_listener, listener, caller)) break;
            const std::lock_guard lock(mutex_);
            if (!injected_[by_caller].empty())
                listener.put(std::exchange(injected_[by_caller], {}));
            if (!injected_[by_listener].empty())
                caller.put(std::exchange(injected_[by_listener], {}));
        }
        is_over_ = true;
    }
    // False: that side has hung up.
    bool pass(bool by, const RawSocket& from, const RawSocket& to) {
        std::byte piece[4096];
        const ssize_t count = recv(from.fd(), piece, sizeof piece, 0);
        if (count <= 0) return false;
        const std::lock_guard lock(mutex_);
        Way& way = ways_[by];
        way.all.insert(way.all.end(), piece, piece + count);
        way.waiting.insert(way.waiting.end(), piece, piece + count);
        while (way.waiting.size() >= FrameHeader::kBytes) {
            const auto whole =
                FrameHeader::kBytes +
                parse_frame_header(std::span(way.waiting).first(FrameHeader::kBytes), "test")
                    .body_bytes;
            if (way.waiting.size() < whole) break;
            const auto end = way.waiting.begin() + static_cast<std::ptrdiff_t>(whole);
            std::vector<std::byte> frame(way.waiting.begin(), end);
            way.waiting.erase(way.waiting.begin(), end);
            Said said{by, way.frames++, frame};
            change_(said);
            (void)to.put(frame);
        }
        return true;
    }

    std::function<void(Said&)> change_;
    std::mutex mutex_;  // guards the next two
    Way ways_[2];
    std::vector<std::byte> injected_[2];
    std::atomic<bool> stop_{false}, is_over_{false};
    Stranger stranger_;  // goes first: it waits for its thread
};

}  // namespace verbatim::test
