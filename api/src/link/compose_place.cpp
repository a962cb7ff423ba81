// The place of a composed message, and its way to the receiver.
#include <verbatim/core/arena.hpp>
#include <verbatim/objects/operations/composed_image.hpp>

#include "object_link.hpp"

namespace verbatim::objects {
namespace {

// Of slots that lie side by side there, in the addresses that are set aside; else 0. The peer may
// say what it wants: nothing of this process is near.
std::uint64_t place_of(const BorrowedWindows& windows, const TakenSlots& slots) noexcept {
    const std::uint64_t bytes = slots.count * wire::kSlotBytes;
    const std::uint64_t first = windows.place(slots.window, slots.slot * wire::kSlotBytes).address;
    for (std::uint64_t done = 0; done < bytes;) {
        const RemoteExtent extent =
            windows.place(slots.window, slots.slot * wire::kSlotBytes + done);
        if (extent.bytes == 0 || extent.address != first + done) return 0;
        done += extent.bytes;
    }
    const bool is_set_aside =
        first >= SetAside::kFirst && first < SetAside::kEnd && bytes <= SetAside::kEnd - first;
    return is_set_aside && first % 4096 == 0 ? first : 0;
}

}  // namespace

ComposePlace::ComposePlace(Connection& connection, std::uint64_t bytes)
    : slots_(std::make_shared<TakenSlots>()) {
    const auto link = object_link(connection);
    link_ = link;
    if (connection.state() != Errc::ok) return;
    link->pump();
    const std::uint64_t count = (bytes + wire::kSlotBytes - 1) / wire::kSlotBytes;
    if (count == 0 || count > wire::kMaxSlots) return;
    Outgoing& outgoing = link->outgoing();
    if (!outgoing.place(connection, *slots_, static_cast<std::uint32_t>(count))) return;
    address_ = place_of(outgoing.windows, *slots_);
    if (address_ == 0) outgoing.unplace(*slots_);
}

ComposePlace::~ComposePlace() {
    if (slots_)
        if (const auto link = link_.lock()) link->outgoing().unplace(*slots_);
}

TakenSlots ComposePlace::take(const ObjectLink& link) const noexcept {
    const auto own = link_.lock();
    if (own.get() != &link) return {};
    return own->outgoing().take_placed(*slots_);
}

ComposedTables& composed_tables(Connection& connection) {
    return object_link(connection)->tables().composed_sent();
}

ComposedImage::ComposedImage(PackTables& tables, const ComposedBytes& bytes)
    : Packing(tables, &ComposedImage::run_all, {}, 0, {}), memory_(bytes.memory) {
    objects_ = bytes.objects;
}

bool ComposedImage::run_all(Packing& packing) {
    auto& image = static_cast<ComposedImage&>(packing);
    if (!std::exchange(image.done_, true))
        image.staging().list(image.memory_.bytes, image.memory_.used);
    return true;
}

ComposedOutbound::ComposedOutbound(Connection& connection, const ComposePlace& place,
                                   const ComposedBytes& bytes, const RootType& root,
                                   std::uint16_t channel)
    : lease_(connection),
      image_(*lease_, bytes),
      outbound_(lease_.link(), image_, root,
                {.channel = channel, .composed = true, .place = &place}) {}

SendReport ComposedOutbound::report() const {
    SendReport report{image_.objects(), 0, 0, image_.image_bytes(), outbound_.wire_bytes()};
    report.composed = true;
    return report;
}

}  // namespace verbatim::objects
