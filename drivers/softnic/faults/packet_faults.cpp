// The words of packet faults.
#include <verbatim/softnic/packet_faults.hpp>

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include <verbatim/driver/advice.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

constexpr std::array<std::string_view, 5> kPacketWords{"lose", "duplicate", "swap", "corrupt",
                                                       "seed"};
constexpr double kMostOfPackets = 0.5, kMillion = 1e6;

template <class Number>
Number number(std::string_view word, std::string_view text, Number most,
              const std::string& object) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // So that what is no number is refused as well.
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= most))
        throw Error(Errc::config_error, object, fmt::format("{} is not allowed", word),
                    fmt::format("its value must be a number from 0 to {}", most));
    return value;
}

void set(PacketFaults& faults, std::string_view word, const std::string& object) {
    const std::size_t end = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, end);
    const auto* const known = std::find(kPacketWords.begin(), kPacketWords.end(), key);
    if (known == kPacketWords.end() || end == word.size())
        throw Error(Errc::config_error, object, fmt::format("unknown packet fault {}", word),
                    known == kPacketWords.end() ? advice(key, kPacketWords) : "write key=value");
    const std::string_view value = word.substr(end + 1);
    if (key == "seed") {
        faults.seed = number<std::uint64_t>(word, value, UINT64_MAX, object);
        return;
    }
    constexpr std::array kRates{&PacketFaults::lose, &PacketFaults::duplicate, &PacketFaults::swap,
                                &PacketFaults::corrupt};
    const double rate = number<double>(word, value, kMostOfPackets, object);
    faults.*kRates[static_cast<std::size_t>(known - kPacketWords.begin())] =
        static_cast<std::uint32_t>(rate * kMillion + 0.5);
}

}  // namespace

PacketFaults parse_packet_faults(std::string_view text, const std::string& object) {
    PacketFaults faults;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end != 0) set(faults, text.substr(0, end), object);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return faults;
}

bool are_packet_faults(std::string_view text) noexcept try {
    static_cast<void>(parse_packet_faults(text, ""));
    return true;
} catch (const std::exception&) {
    return false;
}

}  // namespace verbatim::softnic
