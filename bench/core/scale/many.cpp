#include "many.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "../data.hpp"

namespace verbatim::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t kData = 0;
constexpr std::chrono::milliseconds kQuiet = 50ms, kMostSettling = 5000ms;
constexpr unsigned kTogether = 256;            // connections between two signs of life
constexpr unsigned kRoundsPerLook = 1u << 20;  // polls between two looks at all connections

}  // namespace

Config Many::default_config() {
    setenv("VERBATIM_LOG", "error", 0);
    Config config;
    config.device.kind = "softnic";
    return config;
}

Many::Many(Side& side, const Config& config)
    : side_(side), context_(config), lane_(context_.lane()) {
    if (side.first()) listener_.emplace(context_.listen("127.0.0.1:0"));
    const std::string own = listener_ ? std::to_string(listener_->port()) : "";
    address_ = "127.0.0.1:" + side.exchange(own);
}

void Many::add_one() {
    connections_.push_back(std::make_unique<Connection>(
        listener_ ? listener_->accept(Deadline::after(10s)) : context_.connect(address_)));
    connections_.back()->on(kData, [this, index = connections_.size() - 1](Message& message) {
        value_ = *words(message.payload().data());
        from_ = index;
        ++arrived_;
    });
}

void Many::add(unsigned count) {
    connections_.reserve(connections_.size() + count);
    for (; count != 0; count -= std::min(count, kTogether)) add_some(std::min(count, kTogether));
}

void Many::add_some(unsigned count) {
    for (unsigned i = 0; i < count; ++i) add_one();
    meet();
}

void Many::keep(unsigned count) {
    meet();
    while (connections_.size() > count) connections_.pop_back();
    meet();
}

void Many::check() {
    for (const auto& one : connections_) one->check();
}

void Many::send(std::size_t index, std::span<const std::byte> bytes) {
    Errc error = Errc::ok;
    while ((error = connections_[index]->try_send(kData, bytes)) == Errc::would_block) poll();
    if (error != Errc::ok) throw Error(error, "benchmark", std::string(describe(error)));
}

std::uint64_t Many::receive() {
    for (unsigned round = 1; arrived_ == taken_; ++round) {
        poll();
        if (round % kRoundsPerLook == 0) check();
    }
    if (arrived_ != ++taken_) throw std::runtime_error("more than one message arrived");
    return value_;
}

void Many::settle() {
    const auto limit = std::chrono::steady_clock::now() + kMostSettling;
    auto quiet_since = std::chrono::steady_clock::now();
    for (auto now = quiet_since; now < limit && now - quiet_since < kQuiet;) {
        const bool happened = lane_.poll() != 0;
        now = std::chrono::steady_clock::now();
        if (happened) quiet_since = now;
    }
    meet();
}

void Many::meet() {
    (void)side_.exchange("met", [this] { poll(); });
}

}  // namespace verbatim::bench
