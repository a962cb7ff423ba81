// The random program.
#include "soak_side.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "connection/context_impl.hpp"
#include "lane/lane_impl.hpp"

namespace verbatim::test::soak {
namespace {

using namespace std::chrono_literals;

}  // namespace

// ---- the other thread ----

Outlets::Outlets(Ledger& ledger, std::uint8_t side, std::uint64_t seed)
    : ledger_(ledger), side_(side), thread_([this, seed] { run(Random(seed)); }) {}

void Outlets::add(std::uint32_t connection, Sender sender) {
    const std::lock_guard lock(mutex_);
    outlets_.push_back({connection, std::move(sender)});
}

void Outlets::stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
}

// The other side may have the message before this thread goes on: it is counted before.
bool Outlets::send_one(Outlet& outlet) {
    auto& accepted = ledger_.entries[outlet.connection].accepted[side_][kSender];
    const Text text({outlet.connection, side_, kSender, outlet.sent});
    accepted = outlet.sent + 1;
    const Errc error = outlet.sender.try_send(text.channel, text.bytes, {}, text.kind);
    if (error == Errc::ok)
        ++outlet.sent;
    else
        accepted = outlet.sent;
    return error == Errc::ok || error == Errc::would_block;
}

void Outlets::run(Random random) {
    while (!stop_ && !ledger_.stop) {
        {
            const std::lock_guard lock(mutex_);
            for (int burst = static_cast<int>(random() % 12); burst > 0; --burst) {
                if (outlets_.empty()) break;
                const auto at =
                    outlets_.begin() + static_cast<std::ptrdiff_t>(random() % outlets_.size());
                if (!send_one(*at)) outlets_.erase(at);
            }
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    }
}

// ---- the lane's thread ----

Side::Side(const Plan& plan, Ledger& ledger, std::uint8_t side, const Config& config)
    : plan_(plan),
      ledger_(ledger),
      side_(side),
      random_(mix(plan.seed * 2 + side)),
      place_{plan_, ledger_, side_, random_},
      context_(config),
      outlets_(ledger, side, mix(plan.seed * 2 + side + 77)),
      arena_bytes_(context_.arena().usage().allocated_bytes) {
    if (side_ != 0) {
        second_.emplace(context_.make_lane());
        return;
    }
    listener_.emplace(context_.listen("127.0.0.1:0"));
    ledger_.port = listener_->port();
}

void Side::now(Operation operation, const Talk* talk) noexcept {
    const std::uint32_t id = talk != nullptr ? talk->id() & 0xff'ffff : 0;
    ledger_.doing[side_] = operation << 24 | id;
    ledger_.progress[side_] += operation == kStep ? 1 : 0;  // received messages count, too
}

bool Side::run() {
    while (ledger_.port == 0 && !ledger_.stop) std::this_thread::yield();
    // Else a busy machine lets a side do all its operations without a peer.
    bool has_met = false;
    for (std::uint64_t i = 0; i < plan_.operations && !ledger_.stop; i += has_met ? 1 : 0) {
        now(kStep);
        step();
        has_met = has_met || has_ended(1 - side_) ||
                  std::any_of(talks_.begin(), talks_.end(),
                              [](const auto& talk) { return talk->has_met(); });
    }
    if (plan_.agrees && !ledger_.stop) drain();
    outlets_.stop();
    now(kEnd);
    while (!talks_.empty()) close(talks_.size() - 1);
    while (!kept_.empty()) release_kept();
    if (!ledger_.stop) {
        EXPECT_EQ(context_.arena().usage().allocated_bytes, arena_bytes_) << plan_.seed;
        EXPECT_EQ(context_.lane().connections(), 0u);
        EXPECT_EQ(second_ ? second_->connections() : 0u, 0u);
    }
    if (context_.lane().connections() == 0) {
        const auto& ended =
            static_cast<Context::Impl*>(context_.lane().impl()->resources().keeps.get())->ended;
        EXPECT_EQ(ended.retired, ended.accepted) << plan_.seed;
        EXPECT_TRUE(ended.accepted != 0 || ledger_.stop);
    }
    return !place_.failed && !testing::Test::HasFailure();
}

void Side::step() {
    // A caller blocks: its peer takes it although connections that it left are still there.
    const std::size_t most = side_ == 0 ? 2 * plan_.talks : plan_.talks;
    if (talks_.size() < most && draw(talks_.empty() ? 1 : 30) == 0) meet_someone();
    if (draw(200) == 0) release_kept();
    if (draw(60) == 0) rest();
    if (talks_.empty()) return;
    const std::size_t index = draw(talks_.size());
    Talk& talk = *talks_[index];
    talk.take_turn();
    if (talk.has_met() && draw(plan_.closes) == 0) return close(index);
    if (may_move(talk) && (draw(100) == 0 || ledger_.moves == 0)) move(talk);
    if (draw(400) == 0) talk.mute(static_cast<unsigned>(draw(300)));
    draw(20) == 0 ? do_many(talk) : do_one(talk);
    if (!talk.is_muted() && draw(2) == 0) receive(index, 1 + static_cast<int>(draw(12)));
}

void Side::do_one(Talk& talk) {
    switch (draw(18)) {
        case 16:
        case 17:
            return talk.use_remote();
        case 0:
        case 1:
            return talk.open_claim();
        case 2:
        case 3:
            return talk.close_claim();
        case 4:
        case 5:
            return talk.release(draw(8));
        case 6:
            return talk.answer();
        case 7:
            (void)talk.connection().progress();
            return;
        case 8:
            (void)talk.connection().try_flush();
            return;
        default:
            return talk.send();
    }
}

// Until the ring or the queue is full.
void Side::do_many(Talk& talk) {
    for (int i = 0; i < 40; ++i) talk.send();
}

// Waits of every kind, and none at all for the peer.
void Side::rest() {
    Lane lane = second_ && draw(2) == 0 ? *second_ : context_.lane();
    switch (draw(8)) {
        case 0:
            return std::this_thread::sleep_for(std::chrono::microseconds(draw(1500)));
        case 1:
        case 2:
            (void)lane.wait(Deadline::after(2ms));
            return;
        case 3:
            if (!lane.prepare_to_sleep()) return;
            {
                pollfd entry{lane.descriptor(), POLLIN, 0};
                (void)::poll(&entry, 1, 2);
            }
            (void)lane.poll();
            return;
        case 4:
            for (int i = 0; i < 100; ++i) poll_all();
            return;
        default:
            poll_all();
    }
}

void Side::poll_all() {
    (void)context_.lane().poll();
    if (second_) (void)second_->poll();
}

// A move waits for the peer's program, so a run has few.
bool Side::may_move(const Talk& talk) const {
    return second_ && talk.may_move() && ledger_.moves <= plan_.operations / 500;
}

// There, or back.
void Side::move(Talk& talk) {
    now(kMove, &talk);
    talk.move_to(talk.connection().lane().impl() == second_->impl() ? context_.lane() : *second_);
}

// One wait is for all of them.
void Side::move_all_back() {
    for (const auto& talk : talks_)
        if (second_ && talk->connection().lane().impl() == second_->impl()) move(*talk);
}

// ---- connections ----

void Side::meet_someone() try {
    now(kMeet);
    side_ == 0 ? accept_one() : call();
} catch (const Error& error) {
    const bool is_expected = side_ == 0 ? error.code() == Errc::timeout : plan_.may_lose;
    if (is_expected || ledger_.stop) return;
    place_.failed = true;
    ledger_.stop = true;
    ADD_FAILURE() << "seed " << plan_.seed << ": " << error.what();
}

void Side::accept_one() {
    // A call may be over for the caller before it is over here.
    if (!ledger_.calls && accepted_ >= ledger_.connections) return;
    welcome(listener_->accept(context_.lane(), Deadline::after(1ms)), Talk::kUnknown);
    ++accepted_;
}

void Side::call() {
    if (ledger_.port == 0 || ledger_.connections == Ledger::kMost) return;
    move_all_back();  // the call drives one lane
    now(kMeet);
    ledger_.calls = true;
    Connection made = context_.connect("127.0.0.1:" + std::to_string(ledger_.port));
    ledger_.calls = false;
    welcome(std::move(made), ledger_.connections++);
}

void Side::welcome(Connection made, std::uint32_t id) {
    talks_.push_back(std::make_unique<Talk>(place_, std::move(made), id));
}

void Side::close(std::size_t index) {
    now(kClose, talks_[index].get());
    talks_[index]->leave(kept_);
    talks_.erase(talks_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Side::receive(std::size_t index, int most) {
    Talk& talk = *talks_[index];
    const bool had_met = talk.has_met();
    if (!talk.receive(most)) {
        talk.check_end();
        return close(index);
    }
    if (!had_met && talk.has_met() && !place_.failed)
        outlets_.add(talk.id(), talk.connection().sender());
}

void Side::release_kept() {
    if (kept_.empty()) return;
    std::swap(kept_[draw(kept_.size())], kept_.back());
    Talk::check(place_, kept_.back());
    kept_.pop_back();
}

// ---- the end ----

bool Side::is_drained() const {
    for (const auto& talk : talks_)
        if (!talk->has_settled()) return false;
    if (side_ != 0) return true;
    // Connections that the caller counts, and nobody has seen here.
    for (std::uint32_t id = 0; id < ledger_.connections; ++id) {
        const Entry& entry = ledger_.entries[id];
        if (!entry.joined[0] && entry.left[1] == kStays) return false;
    }
    return true;
}

// All that was sent is on its way, so the lane is woken when it comes.
void Side::await_more() {
    bool awaits = false;
    for (const auto& talk : talks_) {
        if (!talk->is_idle() || talk->has_remote()) return;
        awaits |= talk->awaits_message();
    }
    if (!awaits) return;
    now(kAwait);
    sleeps_late_ = !context_.lane().wait(Deadline::after(2s));
}

// One round: gives back and takes what is there.
bool Side::drain_once() {
    bool all = true;
    const std::uint64_t before = ledger_.progress[side_];
    for (std::size_t i = talks_.size(); i-- != 0;) {
        all = talks_[i]->finish_sending() && talks_[i]->has_met() && all;
        talks_[i]->release(1);
        receive(i, 20);
    }
    release_kept();
    const bool has_come = ledger_.progress[side_] != before;
    // Once it may have come in the last moment.
    if (std::exchange(sleeps_late_, false) && has_come && ++late_ > 1) {
        place_.failed = ledger_.stop = true;
        ADD_FAILURE() << "the lane slept while messages were there, seed " << plan_.seed;
    }
    if (!has_come && ledger_.done[0] && ledger_.done[1]) await_more();
    return all;
}

void Side::drain() {
    outlets_.stop();
    move_all_back();
    bool finished = false;
    while (!(ledger_.drained[0] && ledger_.drained[1]) && !ledger_.stop) {
        now(kDrain);
        if (side_ == 0 && draw(20) == 0) meet_someone();
        const bool all = drain_once();
        poll_all();
        if (!finished && all) finished = ledger_.done[side_] = true;
        if (finished && ledger_.done[1 - side_]) ledger_.drained[side_] = is_drained();
    }
}

}  // namespace verbatim::test::soak
