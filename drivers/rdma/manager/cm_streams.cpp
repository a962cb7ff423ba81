// What programs have of the bridge.
#include <verbatim/rdma/cm_streams.hpp>

#include "cm_bridge.hpp"

namespace verbatim::rdma {

int CmPending::file() const noexcept { return box_->file(); }
std::optional<CmStream> CmPending::take() { return box_->take(); }

CmListener::CmListener(std::shared_ptr<CmBridge> bridge, std::shared_ptr<CmMailbox> box,
                       void* identifier, std::uint16_t port) noexcept
    : bridge_(std::move(bridge)), box_(std::move(box)), identifier_(identifier), port_(port) {}
CmListener::~CmListener() { bridge_->forget(static_cast<rdma_cm_id*>(identifier_)); }
int CmListener::file() const noexcept { return box_->file(); }
std::optional<CmStream> CmListener::accept() { return box_->take(); }

CmStreams::CmStreams(std::string device, std::chrono::milliseconds probe_after)
    : bridge_(std::make_shared<CmBridge>(std::move(device), probe_after)) {}
CmStreams::~CmStreams() { bridge_->stop(); }

CmPending CmStreams::call(const sockaddr& to, std::chrono::milliseconds limit) {
    return CmPending(bridge_->call(to, limit));
}

std::unique_ptr<CmListener> CmStreams::listen(const sockaddr& at, std::chrono::milliseconds limit) {
    const CmBridge::Listening made = bridge_->listen(at, limit);
    return std::make_unique<CmListener>(bridge_, made.box, made.id, made.port);
}

}  // namespace verbatim::rdma
