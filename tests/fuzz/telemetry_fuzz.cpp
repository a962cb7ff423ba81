// What a file in the directory of segments may hold: a well-formed segment, cut off and with bytes
// changed, of the header and of slots.
#include <array>
#include <cstring>
#include <string>

#include "fuzz_target.hpp"
#include "telemetry/segment_format.hpp"

using namespace verbatim;
using namespace verbatim::telemetry;

namespace {

template <class Counts>
void put(std::string& bytes, Section section, Counts counts) {
    const std::uint64_t sequence = 2;
    counts.id = 1;
    std::memcpy(bytes.data() + offset_of(section), &sequence, sizeof sequence);
    std::memcpy(bytes.data() + offset_of(section) + 64, &counts, sizeof counts);
}

std::string well_formed() {
    std::string bytes(kSegmentBytes, '\0');
    Header header;
    header.magic = kMagic;
    header.version = kVersion;
    header.bytes = kSegmentBytes;
    header.used.fill(2);
    std::memcpy(bytes.data(), &header, sizeof header);
    put(bytes, Section::devices, DeviceCounts{});
    put(bytes, Section::lanes, LaneCounts{});
    put(bytes, Section::pollers, PollerCounts{});
    put(bytes, Section::arenas, ArenaCounts{});
    put(bytes, Section::connections, ConnectionCounts{});
    put(bytes, Section::histograms, NamedHistogram{});
    return bytes;
}

template <std::size_t kSize>
void check_text(const std::array<char, kSize>& text) {
    fuzz::require(text_of(text).size() < kSize);
    for (const char c : text_of(text)) fuzz::require(c >= ' ' && c <= '~');
}

void check(const Process& process) {
    for (const ConnectionCounts& one : process.connections) {
        fuzz::require(one.id != 0 && one.channel_count <= one.channels.size());
        check_text(one.peer);
        check_text(one.transport);
    }
    for (const NamedHistogram& one : process.histograms)
        fuzz::require(one.times.quantile(0.99) <= Histogram::end_of(Histogram::kBuckets - 1));
    for (const PollerCounts& one : process.pollers) check_text(one.name);
}

}  // namespace

// The length, then changes: a section or the header, an offset in it, eight bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    static const std::string good = well_formed();
    static std::string changed = good;
    fuzz::Input input(data, bytes);
    const std::size_t length = input.number(4) % (kSegmentBytes + 1);
    std::vector<std::size_t> places;
    while (input.left() > 0 && places.size() < 64) {
        const std::size_t section = input.number(1) % (kSections + 1);
        const std::size_t base = section == 0 ? 0 : offset_of(static_cast<Section>(section - 1));
        places.push_back(base + input.number(2) % 4096);
        const std::uint64_t value = input.number(8);
        std::memcpy(changed.data() + places.back(), &value, sizeof value);
    }
    try {
        check(parse_segment(std::string_view(changed).substr(0, length)));
    } catch (const Error& error) {
        fuzz::require(error.code() != Errc::ok && !error.cause().empty());
    }
    for (const std::size_t at : places)
        std::memcpy(changed.data() + at, good.data() + at, sizeof(std::uint64_t));
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    const auto add = [&](std::size_t length, std::uint8_t section, std::uint16_t at) {
        std::vector<std::byte> seed;
        for (int shift = 24; shift >= 0; shift -= 8)
            seed.push_back(static_cast<std::byte>(length >> shift));
        seed.insert(seed.end(), {std::byte{section}, static_cast<std::byte>(at >> 8),
                                 static_cast<std::byte>(at)});
        seed.resize(seed.size() + 8, std::byte{0xff});
        seeds.push_back(std::move(seed));
    };
    add(kSegmentBytes, 0, offsetof(Header, used));
    for (std::uint8_t section = 1; section <= kSections; ++section) add(kSegmentBytes, section, 64);
    add(kSegmentBytes, 5, 64 + offsetof(ConnectionCounts, channel_count));
    add(offset_of(Section::connections) + 100, 5, 64);
    return seeds;
}
