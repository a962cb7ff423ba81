// The public face of a byte stream.
#include <verbatim/core/stream.hpp>

#include <memory>

#include "layer_of.hpp"
#include "stream_layer.hpp"

namespace verbatim {

Stream::Stream(Connection& connection)
    : impl_(LayerAccess::impl_of(connection)), layer_(layer_of<StreamLayer>(connection)) {}

std::size_t Stream::lend_from() const noexcept { return layer_->least_lent(); }

void Stream::set_lend_from(std::size_t bytes) noexcept { layer_->set_least_lent(bytes); }

Errc Stream::try_write(std::span<const std::byte> bytes, std::size_t& written) noexcept {
    const auto guard = enter(impl_);
    return layer_->try_write(bytes, written);
}

Errc Stream::try_write(SendRequest& request) noexcept {
    const auto guard = enter(impl_);
    return layer_->try_write(request);
}

Errc Stream::try_read(std::span<std::byte> into, std::size_t& read) noexcept {
    const auto guard = enter(impl_);
    return layer_->try_read(into, read);
}

Errc Stream::try_finish() noexcept {
    const auto guard = enter(impl_);
    return layer_->try_finish();
}

std::size_t Stream::readable() const noexcept { return layer_->readable(); }

void Stream::write(std::span<const std::byte> bytes, Deadline deadline) {
    refuse_in_handler(impl_);
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] {
        std::size_t written = 0;
        const Errc error = layer_->try_write(bytes, written);
        bytes = bytes.subspan(written);
        return error == Errc::ok && !bytes.empty() ? Errc::would_block : error;
    });
}

void Stream::write(SendRequest& request, Deadline deadline) {
    refuse_in_handler(impl_);
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] { return layer_->try_write(request); });
    wait_for(impl_, deadline, [&] { return request.result(); });
}

std::size_t Stream::read(std::span<std::byte> into, Deadline deadline) {
    const auto guard = enter(impl_);
    const std::unique_ptr<StreamLayer, void (*)(StreamLayer*)> direct(
        layer_.get(), [](StreamLayer* layer) { layer->stop_direct(); });
    std::size_t read = 0;
    wait_for(impl_, deadline, [&] {
        const Errc error = layer_->read_direct(into, read);
        return error == Errc::unsupported ? layer_->try_read(into, read) : error;
    });
    return read;
}

void Stream::finish(Deadline deadline) {
    refuse_in_handler(impl_);
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] { return layer_->try_finish(); });
}

}  // namespace verbatim
