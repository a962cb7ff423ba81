// The loop of a poller.
#include <verbatim/core/poller.hpp>

#include <emmintrin.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "../lane/lane_driver.hpp"
#include "../lane/lane_impl.hpp"
#include "../lane/wait_set.hpp"
#include "placement.hpp"

namespace verbatim {

// Of connections that end with their poller.
constexpr std::chrono::seconds kLongestClose{10};

class Poller::Impl final : public LaneDriver {
  public:
    Impl(const Config::PollerSection& section, Lane lane);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    const std::string& name() const noexcept { return name_; }
    const Lane& lane() const noexcept { return own_; }
    // In its thread.
    void add(const Lane& lane);
    void remove(const Lane& lane);
    // Of all its lanes. Tasks that wait call these too.
    std::size_t poll() noexcept override;
    bool may_sleep() noexcept override;
    int descriptor() const noexcept override { return waits_.file(); }
    bool in_handler() const noexcept override;
    Lane home() const noexcept override { return own_; }
    void set_stuck(bool is) noexcept override {
        for (const Lane& lane : lanes_) lane.impl()->inbox().set_stuck(is);
    }

  private:
    void run() noexcept;
    void list() noexcept;
    static void leave(Lane::Impl& lane) noexcept;
    bool is_closing() const noexcept;
    bool prepare_to_sleep() noexcept;

    const std::string name_;
    const LaneMode mode_;
    const std::chrono::microseconds spin_;
    WaitSet waits_;
    Lane own_;
    std::vector<Lane> lanes_;   // its own first; owner: its thread, once that runs
    unsigned idle_rounds_ = 0;  // since something happened
    Clock::time_point idle_since_{};
    telemetry::Slot listed_;  // its entry in the context's segment
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

Poller::Impl::Impl(const Config::PollerSection& section, Lane lane)
    : name_(section.name),
      mode_(section.mode),
      spin_(section.spin),
      own_(std::move(lane)),
      lanes_{own_} {
    const placement::Cores cores = placement::cores_of(section);
    waits_.add(own_.descriptor(), nullptr);
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), name_.substr(0, 15).c_str());
    placement::pin(thread_, cores);
}

Poller::Impl::~Impl() {
    // Connections end in the thread that they belong to.
    own_.submit([this]() noexcept {
        own_.impl()->kept().end_all_hosted();
        stop_ = true;
    });
    thread_.join();
}

void Poller::Impl::run() noexcept {
    lanes_.front().impl()->runner() = std::this_thread::get_id();
    LaneDriver::of_thread() = this;
    list();
    while (!stop_.load(std::memory_order_relaxed)) {
        if (poll() != 0) continue;
        if (may_sleep())
            (void)waits_.wait(-1, [](void*) {});  // lanes read their own descriptors
        else
            _mm_pause();
    }
    const Deadline limit = Deadline::after(kLongestClose);
    while (is_closing() && !limit.passed()) (void)poll();
    for (const Lane& lane : lanes_) leave(*lane.impl());
    for (const Lane& lane : lanes_) lane.impl()->runner() = std::thread::id{};
}

// Once: the reader asks the kernel what the thread has used.
void Poller::Impl::list() noexcept {
    const auto& segment = own_.impl()->resources().telemetry->segment();
    if (segment == nullptr) return;
    telemetry::PollerCounts counts;
    listed_ = segment->take(telemetry::Section::pollers);
    counts.id = segment->next_id(telemetry::Section::pollers);
    std::copy_n(name_.begin(), std::min(name_.size(), counts.name.size() - 1), counts.name.begin());
    counts.thread = static_cast<std::uint64_t>(gettid());
    counts.lane = own_.impl()->counts().id;
    listed_.publish(counts);
}

void Poller::Impl::leave(Lane::Impl& lane) noexcept {
    lane.inbox().users().leave();
    while (lane.inbox().take() != 0) {
    }
}

// Connections that ended with the poller take some polls.
bool Poller::Impl::is_closing() const noexcept {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return lane.impl()->kept().has_closing(); });
}

// Tasks may add and remove lanes meanwhile.
std::size_t Poller::Impl::poll() noexcept {
    std::size_t happened = 0;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        Lane lane = lanes_[i];
        happened += lane.poll();
    }
    if (happened != 0) idle_rounds_ = 0;
    return happened;
}

bool Poller::Impl::may_sleep() noexcept {
    constexpr unsigned kRoundsPerClock = 16;
    if (mode_ == LaneMode::busy) return false;
    const unsigned round = idle_rounds_++;
    if (round == 0) idle_since_ = Clock::now();
    const bool spins = mode_ == LaneMode::adaptive &&
                       (round % kRoundsPerClock != 0 || Clock::now() - idle_since_ < spin_);
    return !spins && prepare_to_sleep();
}

bool Poller::Impl::in_handler() const noexcept {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return lane.impl()->in_handler(); });
}

bool Poller::Impl::prepare_to_sleep() noexcept {
    for (Lane& lane : lanes_)
        if (!lane.prepare_to_sleep()) return false;
    return true;
}

void Poller::Impl::add(const Lane& lane) {
    if (lane.impl()->runner().load() != std::thread::id{})
        throw Error(Errc::invalid_argument, "poller " + name_, "another poller drives that lane",
                    "release() it there first");
    waits_.add(lane.descriptor(), nullptr);
    lanes_.push_back(lane);
    lane.impl()->runner() = std::this_thread::get_id();
}

void Poller::Impl::remove(const Lane& lane) {
    const auto at = std::find_if(lanes_.begin() + 1, lanes_.end(),
                                 [&](const Lane& one) { return one.impl() == lane.impl(); });
    if (at == lanes_.end())
        throw Error(Errc::invalid_argument, "poller " + name_, "it has not adopted that lane",
                    "release a lane that was given to adopt()");
    waits_.remove(lane.descriptor());
    lane.impl()->runner() = std::thread::id{};
    lanes_.erase(at);
}

Poller::Poller(const Config::PollerSection& section, Lane lane)
    : impl_(std::make_unique<Impl>(section, std::move(lane))) {}
// A forked child has neither its thread nor its connections: the copy stays where it is.
Poller::~Poller() {
    if (impl_->lane().impl()->polled().is_inherited()) (void)impl_.release();
}

const std::string& Poller::name() const noexcept { return impl_->name(); }
Lane Poller::lane() const noexcept { return impl_->lane(); }

void Poller::adopt(const Lane& lane) {
    Lane(impl_->lane()).call([&] { impl_->add(lane); });
}

void Poller::release(const Lane& lane) {
    Lane(impl_->lane()).call([&] { impl_->remove(lane); });
}

}  // namespace verbatim
