// Text dumper. Reads segments by copying them out, so that any bytes may be looked at.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <verbatim/mlx5/dump.hpp>
#include <verbatim/mlx5/encode.hpp>

namespace verbatim::mlx5 {
namespace {

constexpr std::size_t kShownInlineBytes = 32;

// Takes segments off the front of the bytes.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <typename Segment>
    std::optional<Segment> take() {
        if (rest_.size() < sizeof(Segment)) return std::nullopt;
        std::array<std::byte, sizeof(Segment)> bytes;
        std::copy_n(rest_.begin(), bytes.size(), bytes.begin());
        rest_ = rest_.subspan(sizeof(Segment));
        return std::bit_cast<Segment>(bytes);
    }
    std::span<const std::byte> rest() const { return rest_; }

  private:
    std::span<const std::byte> rest_;
};

std::string flags_text(std::uint8_t flags) {
    std::string text;
    if ((flags & kCompletionAlways) != 0) text += " signaled";
    if ((flags & kSolicited) != 0) text += " solicited";
    if ((flags >> 5) == (kFence >> 5)) text += " fence";
    if ((flags >> 5) == (kSmallFence >> 5)) text += " small-fence";
    return text;
}

std::string element_text(const DataSegment& segment) {
    const std::uint32_t count = segment.byte_count.native();
    return fmt::format("{{{:#x} +{} key {:#x}}}", segment.address.native(),
                       count == 0 ? kMaxElementBytes : count, segment.key.native());
}

std::string inline_text(std::span<const std::byte> from, std::uint32_t header) {
    const std::size_t count = header & kInlineCountMask;
    std::string text = fmt::format(", inline {}:", count);
    for (const std::byte byte : from.first(std::min({count, from.size(), kShownInlineBytes}))) {
        text += fmt::format(" {:02x}", static_cast<unsigned>(byte));
    }
    if (count > from.size()) return text + " (cut off)";
    return count > kShownInlineBytes ? text + " ..." : text;
}

// Data segments and inline segments.
std::string payload_text(Reader reader) {
    std::string text;
    bool in_list = false;
    while (reader.rest().size() >= kUnitBytes) {
        const auto header = Reader(reader.rest()).take<InlineHeader>()->byte_count.native();
        if ((header & kInlineFlag) != 0) {
            text += inline_text(reader.rest().subspan(sizeof(InlineHeader)), header);
            const std::size_t bytes =
                std::size_t{inline_units(header & kInlineCountMask)} * kUnitBytes;
            reader = Reader(reader.rest().subspan(
                std::clamp(bytes, std::size_t{kUnitBytes}, reader.rest().size())));
            in_list = false;
            continue;
        }
        text += in_list ? " " : ", local ";
        text += element_text(*reader.take<DataSegment>());
        in_list = true;
    }
    return text;
}

// What a key update was posted as.
Opcode key_update_of(std::span<const std::byte> wqe) {
    Reader reader(wqe);
    reader.take<ControlSegment>();
    const auto update = reader.take<KeyUpdateSegment>();
    return update ? key_update_opcode(*update) : Opcode::local_invalidate;
}

std::string window_text(Reader reader) {
    const auto update = reader.take<KeyUpdateSegment>();
    const auto key = reader.take<KeySegment>();
    if (!update || !key) return " (cut off)";
    const std::uint32_t variant = key->queue_pair_variant.native() & 0xff;
    if ((key->free & kKeyFree) != 0) return fmt::format(", closed, next key ..{:02x}", variant);
    std::string text =
        fmt::format(", open as ..{:02x} from {:#x} +{}{}{}{}", variant, key->start.native(),
                    key->bytes.native(), (key->access & kKeyRemoteRead) != 0 ? " read" : "",
                    (key->access & kKeyRemoteWrite) != 0 ? " write" : "",
                    (key->access & kKeyRemoteAtomic) != 0 ? " atomic" : "");
    const auto memory = reader.take<DataSegment>();
    return text + (memory ? ", onto " + element_text(*memory) : " (cut off)");
}

std::string target_text(Reader& reader) {
    const auto target = reader.take<DatagramSegment>();
    if (!target) return " (cut off)";
    const std::uint32_t route = target->route.native();
    std::string text =
        fmt::format(", to qp {:#x} queue key {:#x} gid ",
                    target->extended_number.native() & 0xffffff, target->queue_key.native());
    for (std::size_t i = 0; i < target->gid.size(); i += 2)
        text +=
            fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", target->gid[i], target->gid[i + 1]);
    text += fmt::format(" mac {:02x}", fmt::join(target->mac, ":"));
    return text + fmt::format(" port {} from gid {} flow {:#x} class {:#x} hops {} priority {}",
                              target->destination.native(), route >> 20 & 0xff,
                              route & kFlowLabelMask, target->traffic_class, target->hop_limit,
                              target->rate_priority >> 1 & 7);
}

std::string masked_swap_text(Reader& reader, bool small) {
    MaskedSwapSegments8 whole;
    if (small) {
        const auto segment = reader.take<MaskedSwapSegment>();
        if (!segment) return " (cut off)";
        whole = {be64(segment->swap.native()), be64(segment->compare.native()),
                 be64(segment->swap_mask.native()), be64(segment->compare_mask.native())};
    } else {
        const auto segments = reader.take<MaskedSwapSegments8>();
        if (!segments) return " (cut off)";
        whole = *segments;
    }
    return fmt::format(", {} bytes, swap {:#x} under {:#x} if {:#x} under {:#x}", small ? 4 : 8,
                       whole.swap.native(), whole.swap_mask.native(), whole.compare.native(),
                       whole.compare_mask.native());
}

std::string masked_add_text(Reader& reader, bool small) {
    MaskedAddSegment8 whole;
    if (small) {
        const auto segment = reader.take<MaskedAddSegment>();
        if (!segment) return " (cut off)";
        whole = {be64(segment->add.native()), be64(segment->field_ends.native())};
    } else {
        const auto segment = reader.take<MaskedAddSegment8>();
        if (!segment) return " (cut off)";
        whole = *segment;
    }
    return fmt::format(", {} bytes, add {:#x}, fields end at {:#x}", small ? 4 : 8,
                       whole.add.native(), whole.field_ends.native());
}

std::string remote_text(Reader& reader, Opcode opcode, std::uint8_t modifier) {
    const auto remote = reader.take<RemoteAddressSegment>();
    if (!remote) return " (cut off)";
    std::string text = fmt::format(", {} {:#x} key {:#x}", opcode == Opcode::read ? "from" : "to",
                                   remote->address.native(), remote->key.native());
    if (!is_atomic(opcode)) return text;
    const bool small = modifier == kMaskedModifier4;
    if (opcode == Opcode::masked_compare_swap) return text + masked_swap_text(reader, small);
    if (opcode == Opcode::masked_fetch_add) return text + masked_add_text(reader, small);
    const auto atomic = reader.take<AtomicSegment>();
    if (!atomic) return text + " (cut off)";
    if (opcode == Opcode::fetch_add) {
        return text + fmt::format(", add {:#x}", atomic->swap_or_add.native());
    }
    return text + fmt::format(", swap {:#x} if {:#x}", atomic->swap_or_add.native(),
                              atomic->compare.native());
}

struct OpcodeName {
    Opcode opcode;
    std::string_view name;
};
constexpr std::array<OpcodeName, 13> kOpcodeNames{{
    {Opcode::nop, "nop"},
    {Opcode::send_invalidate, "send_invalidate"},
    {Opcode::write, "write"},
    {Opcode::write_immediate, "write_immediate"},
    {Opcode::send, "send"},
    {Opcode::send_immediate, "send_immediate"},
    {Opcode::read, "read"},
    {Opcode::compare_swap, "compare_swap"},
    {Opcode::fetch_add, "fetch_add"},
    {Opcode::masked_compare_swap, "masked_compare_swap"},
    {Opcode::masked_fetch_add, "masked_fetch_add"},
    {Opcode::local_invalidate, "local_invalidate"},
    {Opcode::bind_window, "bind_window"},
}};

std::string error_text(const ErrorCqe& error) {
    return fmt::format(": {} (syndrome {:#04x}, vendor {:#04x})", describe_syndrome(error.syndrome),
                       error.syndrome, error.vendor_syndrome);
}

std::string cqe_body(const Cqe& cqe) {
    const std::uint32_t opcode_number = cqe.opcode_number.native();
    const std::string where =
        fmt::format("qp {:#x} wqe #{}", opcode_number & 0xffffff, cqe.wqe_counter.native());
    const std::string bytes = fmt::format(", {} bytes", cqe.byte_count.native());
    const std::string immediate = fmt::format(" immediate {:#x}", cqe.immediate.native());
    const std::string opcode = name(static_cast<Opcode>(opcode_number >> 24));
    switch (cqe_opcode(cqe.op_own)) {
        case CqeOpcode::requester:
            return fmt::format("sent {} {}{}", opcode, where, bytes);
        case CqeOpcode::write_immediate:
            return fmt::format("written to {}{}{}", where, bytes, immediate);
        case CqeOpcode::send:
            return fmt::format("received {}{}", where, bytes);
        case CqeOpcode::send_immediate:
            return fmt::format("received {}{}{}", where, bytes, immediate);
        case CqeOpcode::send_invalidate:
            return fmt::format("received {}{} invalidates {:#x}", where, bytes,
                               cqe.immediate.native());
        case CqeOpcode::resized:
            return "goes on in another buffer";
        case CqeOpcode::requester_error:
            return fmt::format("failed {} {}{}", opcode, where,
                               error_text(std::bit_cast<ErrorCqe>(cqe)));
        case CqeOpcode::responder_error:
            return fmt::format("failed receive {}{}", where,
                               error_text(std::bit_cast<ErrorCqe>(cqe)));
        case CqeOpcode::invalid:
            return "invalid";
    }
    return fmt::format("cqe opcode {} {}", cqe.op_own >> 4, where);
}

}  // namespace

std::string name(Opcode opcode) {
    const auto* found = std::find_if(kOpcodeNames.begin(), kOpcodeNames.end(),
                                     [=](const OpcodeName& one) { return one.opcode == opcode; });
    if (found == kOpcodeNames.end())
        return fmt::format("opcode {:#04x}", static_cast<unsigned>(opcode));
    return std::string(found->name);
}

std::string_view describe_syndrome(std::uint8_t syndrome) noexcept {
    switch (static_cast<Syndrome>(syndrome)) {
        case Syndrome::local_length:
            return "local length error";
        case Syndrome::local_queue_pair:
            return "local queue pair operation error";
        case Syndrome::local_protection:
            return "local protection error";
        case Syndrome::flushed:
            return "flushed";
        case Syndrome::window_bind:
            return "memory window bind error";
        case Syndrome::bad_response:
            return "bad response";
        case Syndrome::local_access:
            return "local access error";
        case Syndrome::remote_invalid:
            return "remote invalid request";
        case Syndrome::remote_access:
            return "remote access error";
        case Syndrome::remote_operation:
            return "remote operation error";
        case Syndrome::retry_exceeded:
            return "transport retries exceeded";
        case Syndrome::rnr_exceeded:
            return "receiver-not-ready retries exceeded";
        case Syndrome::remote_aborted:
            return "aborted by the remote side";
    }
    return "unknown syndrome";
}

std::string dump_wqe(std::span<const std::byte> wqe, Transport transport) {
    Reader reader(wqe);
    const auto control = reader.take<ControlSegment>();
    if (!control) return "(cut off)";
    auto opcode = static_cast<Opcode>(opcode_of(*control));
    if (opcode == Opcode::local_invalidate) opcode = key_update_of(wqe);
    std::string text = fmt::format("#{} {} qp {:#x} ds {}{}", index_of(*control), name(opcode),
                                   number_of(*control), units_of(*control),
                                   flags_text(control->fence_completion_event));
    if (takes_immediate(opcode))
        text += fmt::format(", immediate {:#x}", control->immediate.native());
    if (opcode == Opcode::send_invalidate || is_key_update(opcode))
        text += fmt::format(", key {:#x}", control->immediate.native());
    const std::size_t bytes = std::size_t{units_of(*control)} * kUnitBytes;
    if (bytes < sizeof *control || bytes > wqe.size()) return text + " (cut off)";
    reader = Reader(wqe.first(bytes).subspan(sizeof *control));
    if (opcode == Opcode::local_invalidate) return text;
    if (opcode == Opcode::bind_window) return text + window_text(reader);
    if (names_remote_memory(opcode)) text += remote_text(reader, opcode, modifier_of(*control));
    if (transport == Transport::unreliable_datagram && is_send(opcode)) text += target_text(reader);
    return text + payload_text(reader);
}

std::string dump_receive_entry(std::span<const std::byte> entry) {
    Reader reader(entry);
    std::string elements;
    while (const auto segment = reader.take<DataSegment>()) {
        if (segment->key.native() == kInvalidKey && segment->byte_count.native() == 0) break;
        elements.append(" ").append(element_text(*segment));
    }
    return fmt::format("receive{}{}", elements.empty() ? " nothing" : " into", elements);
}

std::string dump_shared_receive_entry(std::span<const std::byte> entry) {
    Reader reader(entry);
    const auto link = reader.take<SharedReceiveNextSegment>();
    if (!link) return "(cut off)";
    return fmt::format("{}, then #{}", dump_receive_entry(reader.rest()),
                       link->next_index.native());
}

std::string dump_cqe(const Cqe& cqe) {
    return fmt::format("[{}] {}", cqe.op_own & kOwnerMask, cqe_body(cqe));
}

std::string describe(const Completion& completion) {
    const bool sent = completion.kind == CompletionKind::send_side;
    const std::string what =
        fmt::format("{} {} on queue pair {:#x}", sent ? name(completion.opcode) : "receive",
                    completion.id, completion.queue_pair);
    if (completion.status != Errc::ok) {
        return fmt::format("{} failed: {} (syndrome {:#04x}, vendor {:#04x})", what,
                           verbatim::describe(completion.status), completion.syndrome,
                           completion.vendor_syndrome);
    }
    std::string text = what + " done";
    if (!sent || completion.opcode == Opcode::read)
        text += fmt::format(", {} bytes", completion.bytes);
    if (completion.has_immediate) text += fmt::format(", immediate {:#x}", completion.immediate);
    return text;
}

}  // namespace verbatim::mlx5
