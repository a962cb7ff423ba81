// A side of the soak test is a context with one lane, driven by one thread, and a second thread
// that sends through Senders. It does random operations and compares all that happens with the
// model.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "soak_talk.hpp"

namespace verbatim::test::soak {

// The other thread of a side.
class Outlets {
  public:
    Outlets(Ledger& ledger, std::uint8_t side, std::uint64_t seed);
    ~Outlets() { stop(); }
    // Sends on that connection from now on, until it has ended.
    void add(std::uint32_t connection, Sender sender);
    // What was accepted stays queued.
    void stop();

  private:
    struct Outlet {
        std::uint32_t connection;
        Sender sender;
        std::uint64_t sent = 0;
    };
    void run(Random random);
    bool send_one(Outlet& outlet);

    Ledger& ledger_;
    std::uint8_t side_;
    std::mutex mutex_;
    std::vector<Outlet> outlets_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

class Side {
  public:
    // Side 0 listens, side 1 calls it.
    Side(const Plan& plan, Ledger& ledger, std::uint8_t side, const Config& config);
    // All operations, and the end. False: something was not as the model has it.
    bool run();

  private:
    enum Operation : std::uint32_t { kStep, kMeet, kClose, kDrain, kAwait, kEnd, kMove };
    void step();
    void do_one(Talk& talk);
    void do_many(Talk& talk);
    void rest();
    void poll_all();
    bool has_ended(int side) const { return ledger_.doing[side] >> 24 == kEnd; }
    bool may_move(const Talk& talk) const;
    void move(Talk& talk);
    void move_all_back();
    void meet_someone();
    void accept_one();
    void call();
    void welcome(Connection made, std::uint32_t id);
    void close(std::size_t index);
    void receive(std::size_t index, int most);
    void release_kept();
    void drain();
    bool drain_once();
    void await_more();
    bool is_drained() const;
    void now(Operation operation, const Talk* talk = nullptr) noexcept;
    std::uint64_t draw(std::uint64_t below) { return random_() % below; }

    Plan plan_;
    Ledger& ledger_;
    std::uint8_t side_;
    Random random_;
    Place place_;
    Context context_;
    // Side 1 has a second lane, to which its talks move. The other side never waits for long, so
    // none waits for a side that waits for it.
    std::optional<Lane> second_;
    std::optional<Listener> listener_;
    std::vector<Held> kept_;
    std::vector<std::unique_ptr<Talk>> talks_;
    Outlets outlets_;
    std::uint32_t accepted_ = 0;
    bool sleeps_late_ = false;  // a wait has ended at its deadline
    int late_ = 0;
    std::size_t arena_bytes_;  // allocated at the beginning
};

}  // namespace verbatim::test::soak
