// The tables, and what reads by them.
#include "mlx5_prm.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace verbatim::prm {
namespace {

struct Field {
    std::string_view name;
    std::uint16_t word;      // offset of the 32-bit word in bytes
    std::uint8_t high, low;  // bits in it
};

constexpr Field kControl[] = {
    {"opmod", 0x00, 31, 24},     {"wqe_index", 0x00, 23, 8}, {"opcode", 0x00, 7, 0},
    {"qp_or_sq", 0x04, 31, 8},   {"ds", 0x04, 5, 0},         {"signature", 0x08, 31, 24},
    {"dci_stream", 0x08, 23, 8}, {"fm", 0x08, 7, 5},         {"ce", 0x08, 3, 2},
    {"se", 0x08, 1, 1},          {"imm", 0x0c, 31, 0},
};
constexpr Field kRemote[] = {
    {"va_h", 0x00, 31, 0},
    {"va_l", 0x04, 31, 0},
    {"rkey", 0x08, 31, 0},
};
constexpr Field kAtomic[] = {
    {"swap_or_add_h", 0x00, 31, 0},
    {"swap_or_add_l", 0x04, 31, 0},
    {"compare_h", 0x08, 31, 0},
    {"compare_l", 0x0c, 31, 0},
};
constexpr Field kMaskedSwap4[] = {
    {"swap_data", 0x00, 31, 0},
    {"cmp_data", 0x04, 31, 0},
    {"swap_mask", 0x08, 31, 0},
    {"cmp_mask", 0x0c, 31, 0},
};
constexpr Field kMaskedAdd4[] = {
    {"add_data", 0x00, 31, 0},
    {"field_boundary", 0x04, 31, 0},
};
constexpr Field kMaskedSwap8[] = {
    {"swap_data_h", 0x00, 31, 0}, {"swap_data_l", 0x04, 31, 0}, {"cmp_data_h", 0x08, 31, 0},
    {"cmp_data_l", 0x0c, 31, 0},  {"swap_mask_h", 0x10, 31, 0}, {"swap_mask_l", 0x14, 31, 0},
    {"cmp_mask_h", 0x18, 31, 0},  {"cmp_mask_l", 0x1c, 31, 0},
};
constexpr Field kMaskedAdd8[] = {
    {"add_data_h", 0x00, 31, 0},
    {"add_data_l", 0x04, 31, 0},
    {"field_boundary_h", 0x08, 31, 0},
    {"field_boundary_l", 0x0c, 31, 0},
};
constexpr Field kAddressVector[] = {
    {"qkey", 0x00, 31, 0},
    {"ext", 0x08, 31, 31},
    {"destination_qp", 0x08, 23, 0},
    {"stat_rate", 0x0c, 31, 28},
    {"sl_or_eth_prio", 0x0c, 27, 24},
    {"fl", 0x0c, 23, 23},
    {"mlid", 0x0c, 22, 16},
    {"rlid_or_udp_sport", 0x0c, 15, 0},
    {"rmac_47_16", 0x14, 31, 0},
    {"rmac_15_0", 0x18, 31, 16},
    {"tclass", 0x18, 15, 8},
    {"hop_limit", 0x18, 7, 0},
    {"grh", 0x1c, 30, 30},
    {"src_addr_index", 0x1c, 27, 20},
    {"flow_label", 0x1c, 19, 0},
    {"rgid_127_96", 0x20, 31, 0},
    {"rgid_95_64", 0x24, 31, 0},
    {"rgid_63_32", 0x28, 31, 0},
    {"rgid_31_0", 0x2c, 31, 0},
};
constexpr Field kData[] = {
    {"inline", 0x00, 31, 31},   {"byte_count", 0x00, 30, 0}, {"lkey", 0x04, 31, 0},
    {"address_h", 0x08, 31, 0}, {"address_l", 0x0c, 31, 0},
};
constexpr Field kInline[] = {
    {"inline", 0x00, 31, 31},
    {"byte_count", 0x00, 9, 0},
};
constexpr Field kUpdateControl[] = {
    {"inline", 0x00, 31, 31},
    {"check_free", 0x00, 29, 29},
    {"translation_offset_en", 0x00, 28, 28},
    {"check_qpn", 0x00, 27, 27},
    {"translation_octowords", 0x04, 31, 16},
    {"translation_offset", 0x04, 15, 0},
    {"mkey_mask_h", 0x08, 31, 0},
    {"mkey_mask_l", 0x0c, 31, 0},
};
constexpr Field kKeyContext[] = {
    {"free", 0x00, 30, 30},        {"a", 0x00, 14, 14},           {"rw", 0x00, 13, 13},
    {"rr", 0x00, 12, 12},          {"qpn", 0x04, 31, 8},          {"mkey_7_0", 0x04, 7, 0},
    {"start_addr_h", 0x10, 31, 0}, {"start_addr_l", 0x14, 31, 0}, {"len_h", 0x18, 31, 0},
    {"len_l", 0x1c, 31, 0},
};
constexpr Field kSharedNext[] = {
    {"next_wqe_index", 0x00, 15, 0},
    {"signature", 0x04, 31, 24},
};
constexpr Field kCompletion[] = {
    {"srqn_user_index", 0x20, 23, 0},
    {"imm_inval_pkey", 0x24, 31, 0},
    {"byte_cnt", 0x2c, 31, 0},
    {"send_wqe_opcode", 0x38, 31, 24},
    {"qpn", 0x38, 23, 0},
    {"wqe_counter", 0x3c, 31, 16},
    {"opcode", 0x3c, 7, 4},
    {"cqe_format", 0x3c, 3, 2},
    {"se", 0x3c, 1, 1},
    {"owner", 0x3c, 0, 0},
};
constexpr Field kErrorSyndrome[] = {
    {"vendor_error_syndrome", 0x34, 15, 8},
    {"syndrome", 0x34, 7, 0},
};
constexpr Field kQueuePairRecord[] = {
    {"receive_counter", 0x00, 15, 0},
    {"send_counter", 0x04, 15, 0},
};
constexpr Field kSharedRecord[] = {{"counter", 0x00, 15, 0}};
constexpr Field kCompletionRecord[] = {{"update_ci", 0x00, 23, 0}};

constexpr std::size_t kUnit = 16;
constexpr std::size_t kControlBytes = 16, kRemoteBytes = 16, kAtomicBytes = 16,
                      kLongAtomicBytes = 32, kVectorBytes = 48, kDataBytes = 16, kUpdateBytes = 48,
                      kKeyBytes = 64, kCompletionBytes = 64;
constexpr std::uint32_t kInvalidKey = 0x100;

std::uint32_t word_at(Bytes bytes, std::size_t at) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i)
        word = word << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return word;
}
std::uint32_t mask_of(const Field& field) {
    const std::uint64_t bits = (std::uint64_t{1} << (field.high - field.low + 1)) - 1;
    return static_cast<std::uint32_t>(bits << field.low);
}

// A structure in memory with its table.
class View {
  public:
    View(Bytes bytes, std::span<const Field> table) : bytes_(bytes), table_(table) {}

    std::uint32_t operator[](std::string_view name) const {
        for (const Field& field : table_)
            if (field.name == name)
                return (word_at(bytes_, field.word) & mask_of(field)) >> field.low;
        throw std::logic_error("no field " + std::string(name));
    }
    std::uint64_t wide(std::string_view high, std::string_view low) const {
        return std::uint64_t{(*this)[high]} << 32 | (*this)[low];
    }
    bool reserved_are_zero() const {
        for (std::size_t at = 0; at + 4 <= bytes_.size(); at += 4) {
            std::uint32_t named = 0;
            for (const Field& field : table_)
                if (field.word == at) named |= mask_of(field);
            if ((word_at(bytes_, at) & ~named) != 0) return false;
        }
        return true;
    }

  private:
    Bytes bytes_;
    std::span<const Field> table_;
};

// Takes structures off the front of a WQE.
class Walk {
  public:
    Walk(Bytes rest, std::vector<std::string>& complaints) : rest_(rest), complaints_(complaints) {}

    // Nothing, and a complaint, where the WQE ends before.
    std::optional<View> take(const char* what, std::size_t bytes, std::span<const Field> table) {
        if (rest_.size() < bytes) {
            complaints_.push_back(std::string(what) + " is cut off");
            rest_ = {};
            return std::nullopt;
        }
        const View view(rest_.first(bytes), table);
        if (!view.reserved_are_zero())
            complaints_.push_back(std::string("reserved bits of ") + what + " are set");
        rest_ = rest_.subspan(bytes);
        return view;
    }
    Bytes rest() const { return rest_; }
    void skip(std::size_t bytes) { rest_ = rest_.subspan(std::min(bytes, rest_.size())); }
    void complain(std::string what) { complaints_.push_back(std::move(what)); }

  private:
    Bytes rest_;
    std::vector<std::string>& complaints_;
};

AddressVector address_vector(const View& view) {
    return {.queue_key = view["qkey"],
            .number = view["destination_qp"],
            .extended = view["ext"] != 0,
            .global = view["grh"] != 0,
            .rate = view["stat_rate"],
            .service_level = view["sl_or_eth_prio"],
            .path_bits = view["fl"] << 7 | view["mlid"],
            .destination = view["rlid_or_udp_sport"],
            .mac = std::uint64_t{view["rmac_47_16"]} << 16 | view["rmac_15_0"],
            .traffic_class = view["tclass"],
            .hop_limit = view["hop_limit"],
            .source_gid = view["src_addr_index"],
            .flow_label = view["flow_label"],
            .gid_high = view.wide("rgid_127_96", "rgid_95_64"),
            .gid_low = view.wide("rgid_63_32", "rgid_31_0")};
}

Piece piece(const View& view) {
    return {view.wide("address_h", "address_l"), view["byte_count"], view["lkey"]};
}

// Inline data: the length, then the bytes, up to a whole unit.
void take_inline(Walk& walk, SendWqe& to) {
    const View header(walk.rest().first(4), kInline);
    if (!header.reserved_are_zero()) walk.complain("reserved bits of the inline header are set");
    const std::size_t bytes = header["byte_count"];
    const std::size_t all = (4 + bytes + kUnit - 1) / kUnit * kUnit;
    if (all > walk.rest().size()) return walk.skip(all), walk.complain("inline data are cut off");
    const Bytes data = walk.rest().subspan(4, bytes);
    to.payload.insert(to.payload.end(), data.begin(), data.end());
    walk.skip(all);
}

void take_payload(Walk& walk, SendWqe& to) {
    while (!walk.rest().empty()) {
        if (walk.rest().size() < kUnit) return walk.complain("half a unit");
        if (View(walk.rest().first(4), kInline)["inline"] != 0) {
            take_inline(walk, to);
        } else if (const auto data = walk.take("data segment", kDataBytes, kData)) {
            to.pieces.push_back(piece(*data));
        }
    }
}

void take_update(Walk& walk, SendWqe& to) {
    const auto control = walk.take("UMR control segment", kUpdateBytes, kUpdateControl);
    if (!control) return;
    const auto key = walk.take("memory key context", kKeyBytes, kKeyContext);
    if (!key) return;
    to.update = {.in_line = (*control)["inline"] != 0,
                 .check_free = (*control)["check_free"] != 0,
                 .translation_offset = (*control)["translation_offset_en"] != 0,
                 .check_number = (*control)["check_qpn"] != 0,
                 .translation_units = (*control)["translation_octowords"],
                 .mask = control->wide("mkey_mask_h", "mkey_mask_l"),
                 .free = (*key)["free"] != 0,
                 .atomic = (*key)["a"] != 0,
                 .remote_write = (*key)["rw"] != 0,
                 .remote_read = (*key)["rr"] != 0,
                 .number = (*key)["qpn"],
                 .variant = (*key)["mkey_7_0"],
                 .start = key->wide("start_addr_h", "start_addr_l"),
                 .bytes = key->wide("len_h", "len_l")};
    if (to.update->translation_units == 0) return;
    if (const auto data = walk.take("translation", kDataBytes, kData))
        to.pieces.push_back(piece(*data));
    walk.skip((to.update->translation_units - 1) * kUnit);
}

// Opcodes of the manual, "Send request opcodes".
constexpr std::uint32_t kSendInvalidate = 0x01, kWrite = 0x08, kWriteImmediate = 0x09, kSend = 0x0a,
                        kSendImmediate = 0x0b, kRead = 0x10, kCompareSwap = 0x11, kFetchAdd = 0x12,
                        kMaskedSwap = 0x14, kMaskedAdd = 0x15, kUpdate = 0x25;
// Opcode modifier of masked atomics: 8 and the binary logarithm of the operands' size in words
// of 4.
constexpr std::uint32_t kOfWords = 8, kOfDoubleWords = 9;

bool any_of(std::uint32_t opcode, std::initializer_list<std::uint32_t> opcodes) {
    return std::find(opcodes.begin(), opcodes.end(), opcode) != opcodes.end();
}

void take_masked_words(Walk& walk, SendWqe& to) {
    to.masked.emplace().bytes = 4;
    if (to.opcode == kMaskedSwap) {
        const auto view = walk.take("masked swap segment", kAtomicBytes, kMaskedSwap4);
        if (!view) return;
        to.masked->swap_or_add = (*view)["swap_data"];
        to.masked->compare = (*view)["cmp_data"];
        to.masked->swap_mask = (*view)["swap_mask"];
        to.masked->compare_mask = (*view)["cmp_mask"];
    } else if (const auto view = walk.take("masked add segment", kAtomicBytes, kMaskedAdd4)) {
        to.masked->swap_or_add = (*view)["add_data"];
        to.masked->field_boundary = (*view)["field_boundary"];
    }
}

void take_masked_double_words(Walk& walk, SendWqe& to) {
    to.masked.emplace().bytes = 8;
    if (to.opcode == kMaskedSwap) {
        const auto view = walk.take("masked swap segments", kLongAtomicBytes, kMaskedSwap8);
        if (!view) return;
        to.masked->swap_or_add = view->wide("swap_data_h", "swap_data_l");
        to.masked->compare = view->wide("cmp_data_h", "cmp_data_l");
        to.masked->swap_mask = view->wide("swap_mask_h", "swap_mask_l");
        to.masked->compare_mask = view->wide("cmp_mask_h", "cmp_mask_l");
    } else if (const auto view = walk.take("masked add segment", kAtomicBytes, kMaskedAdd8)) {
        to.masked->swap_or_add = view->wide("add_data_h", "add_data_l");
        to.masked->field_boundary = view->wide("field_boundary_h", "field_boundary_l");
    }
}

void take_masked(Walk& walk, SendWqe& to) {
    if (to.modifier == kOfWords) return take_masked_words(walk, to);
    if (to.modifier == kOfDoubleWords) return take_masked_double_words(walk, to);
    walk.complain("a masked atomic of another size than 4 and 8 bytes");
}

// What follows the control segment.
void take_body(Walk walk, SendWqe& seen, Service service) {
    if (seen.opcode == kUpdate) {
        take_update(walk, seen);
        if (!walk.rest().empty()) walk.complain("bytes behind a UMR");
        return;
    }
    if (service == Service::datagram &&
        any_of(seen.opcode, {kSend, kSendImmediate, kSendInvalidate})) {
        if (const auto view = walk.take("address vector", kVectorBytes, kAddressVector))
            seen.address_vector = address_vector(*view);
    }
    const bool atomic = any_of(seen.opcode, {kCompareSwap, kFetchAdd});
    const bool masked = any_of(seen.opcode, {kMaskedSwap, kMaskedAdd});
    if (atomic || masked || any_of(seen.opcode, {kWrite, kWriteImmediate, kRead})) {
        if (const auto view = walk.take("remote address segment", kRemoteBytes, kRemote))
            seen.remote = Remote{view->wide("va_h", "va_l"), (*view)["rkey"]};
    }
    if (atomic) {
        if (const auto view = walk.take("atomic segment", kAtomicBytes, kAtomic))
            seen.atomic = Atomic{view->wide("swap_or_add_h", "swap_or_add_l"),
                                 view->wide("compare_h", "compare_l")};
    }
    if (masked) take_masked(walk, seen);
    take_payload(walk, seen);
}

std::optional<std::uint32_t> counter(Bytes record, std::span<const Field> table,
                                     std::string_view name) {
    const View view(record, table);
    if (!view.reserved_are_zero()) return std::nullopt;
    return view[name];
}

}  // namespace

SendWqe describe_send(Bytes wqe, Service service) {
    SendWqe seen;
    Walk walk(wqe, seen.complaints);
    const auto control = walk.take("control segment", kControlBytes, kControl);
    if (!control) return seen;
    seen.opcode = (*control)["opcode"];
    seen.modifier = (*control)["opmod"];
    seen.index = (*control)["wqe_index"];
    seen.number = (*control)["qp_or_sq"];
    seen.units = (*control)["ds"];
    seen.signature = (*control)["signature"];
    seen.stream = (*control)["dci_stream"];
    seen.fence = (*control)["fm"];
    seen.completion = (*control)["ce"];
    seen.solicited = (*control)["se"] != 0;
    seen.immediate = (*control)["imm"];
    if (seen.units == 0 || seen.units * kUnit > wqe.size()) {
        walk.complain("the WQE is cut off");
        return seen;
    }
    take_body(Walk(wqe.first(seen.units * kUnit).subspan(kControlBytes), seen.complaints), seen,
              service);
    return seen;
}

ReceiveWqe describe_receive(Bytes entry, bool shared) {
    ReceiveWqe seen;
    Walk walk(entry, seen.complaints);
    if (shared) {
        if (const auto next = walk.take("next segment", kUnit, kSharedNext))
            seen.next_index = (*next)["next_wqe_index"];
    }
    while (!walk.rest().empty()) {
        const auto data = walk.take("data segment", kDataBytes, kData);
        if (!data) break;
        const Piece one = piece(*data);
        if ((*data)["inline"] != 0) walk.complain("a receive with inline data");
        if (one.key == kInvalidKey && one.bytes == 0) break;
        seen.pieces.push_back(one);
    }
    return seen;
}

Completion describe_completion(Bytes entry) {
    const Bytes proper = entry.last(kCompletionBytes);
    const View view(proper, kCompletion), error(proper, kErrorSyndrome);
    Completion seen{.opcode = view["opcode"],
                    .format = view["cqe_format"],
                    .solicited = view["se"] != 0,
                    .owner = view["owner"] != 0,
                    .shared_or_user = view["srqn_user_index"],
                    .immediate = view["imm_inval_pkey"],
                    .byte_count = view["byte_cnt"],
                    .send_opcode = view["send_wqe_opcode"],
                    .number = view["qpn"],
                    .counter = view["wqe_counter"],
                    .vendor_syndrome = error["vendor_error_syndrome"],
                    .syndrome = error["syndrome"],
                    .data = {}};
    constexpr std::uint32_t kIn32 = 1, kIn64 = 2;
    if (seen.format == kIn32) seen.data = proper.first(32);
    if (seen.format == kIn64 && entry.size() == 2 * kCompletionBytes) seen.data = entry.first(64);
    return seen;
}

std::optional<std::uint32_t> receive_counter(Bytes record) {
    return counter(record.first(4), std::span(kQueuePairRecord).first(1), "receive_counter");
}
std::optional<std::uint32_t> send_counter(Bytes record) {
    return counter(record.first(8), kQueuePairRecord, "send_counter");
}
std::optional<std::uint32_t> shared_counter(Bytes record) {
    return counter(record.first(4), kSharedRecord, "counter");
}
std::optional<std::uint32_t> consumer_index(Bytes record) {
    return counter(record.first(4), kCompletionRecord, "update_ci");
}

}  // namespace verbatim::prm
