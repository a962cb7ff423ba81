// Meeting and ending of streams.
#include "stream_setup.hpp"

#include <utility>

namespace verbatim::softnic {

void StreamSetup::decline() noexcept {
    const std::lock_guard lock(mutex_);
    if (token_ != StreamToken{}) service_.doors().withdraw(std::exchange(token_, {}));
}

void StreamSetup::tell(QueuePairAddress& address) {
    service_.tell(address, local_);
    const std::lock_guard lock(mutex_);
    if (service_.offered() && token_ == StreamToken{}) token_ = service_.doors().invite();
    address.stream_token = token_;
    address.reads_answered = kQuestions;
}

std::unique_ptr<PeerStream> StreamSetup::meet(const QueuePairAddress& own,
                                              const QueuePairAddress& peer, Instant deadline,
                                              const PeerStream::Driver& driver) {
    ChannelSender ring(shared_.connection.incoming.lend());
    const std::size_t questions = peer.reads_answered == 0 ? 1 : peer.reads_answered;
    auto stream = std::make_unique<PeerStream>(std::move(ring), questions, shared_.failure.text);
    stream->watch(service_.thread(), driver, deadline);
    try {
        service_.doors().meet(own, peer, deadline, *stream);
    } catch (...) {
        decline();
        throw;
    }
    return stream;
}

void StreamSetup::bind(std::unique_ptr<PeerStream> stream) noexcept {
    stream_ = std::move(stream);
    shared_.connection.stream.store(stream_.get(), std::memory_order_release);
}

void StreamSetup::unwatch() noexcept {
    decline();
    if (stream_ != nullptr) stream_->unwatch();
}

void StreamSetup::forget() noexcept {
    shared_.connection.stream.store(nullptr, std::memory_order_release);
    stream_ = nullptr;
}

}  // namespace verbatim::softnic
