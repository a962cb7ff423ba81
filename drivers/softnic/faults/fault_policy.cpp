// The words of fault policies.
#include <verbatim/softnic/fault_policy.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/advice.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

using mlx5::Syndrome;

constexpr std::array<std::string_view, kFaultActions> kActions{
    "fail", "delay", "drop", "duplicate", "corrupt", "kill", "stall", "disconnect"};
constexpr std::array<std::string_view, 5> kOperations{"send", "write", "read", "atomic", "all"};
constexpr std::array<std::uint8_t, 5> kOperationBits{kFaultSend, kFaultWrite, kFaultRead,
                                                     kFaultAtomic, kFaultAll};
constexpr std::array<std::string_view, 9> kSyndromes{
    "local_length",     "local_queue_pair", "local_protection", "remote_invalid", "remote_access",
    "remote_operation", "retry_exceeded",   "rnr_exceeded",     "remote_aborted"};
constexpr std::array<Syndrome, 9> kSyndromeValues{
    Syndrome::local_length,   Syndrome::local_queue_pair, Syndrome::local_protection,
    Syndrome::remote_invalid, Syndrome::remote_access,    Syndrome::remote_operation,
    Syndrome::retry_exceeded, Syndrome::rnr_exceeded,     Syndrome::remote_aborted};
constexpr std::array<std::string_view, 9> kKeys{
    "action", "operations", "nth", "times", "rate", "seed", "delay_us", "syndrome", "payload"};
constexpr std::int64_t kLongestDelayUs = 60'000'000;

[[noreturn]] void refuse(const std::string& object, const std::string& cause,
                         const std::string& remedy) {
    throw Error(Errc::config_error, object, cause, remedy);
}

// Where the word is in the list.
std::size_t find(std::string_view word, std::span<const std::string_view> known, const char* what,
                 const std::string& object) {
    const auto found = std::find(known.begin(), known.end(), word);
    if (found == known.end())
        refuse(object, fmt::format("unknown {} {}", what, word), advice(word, known));
    return static_cast<std::size_t>(found - known.begin());
}

template <class Number>
Number number(std::string_view key, std::string_view text, Number least, Number most,
              const std::string& object) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // So that what is no number is refused as well.
    if (error != std::errc{} || end != text.data() + text.size() ||
        !(value >= least && value <= most))
        refuse(object, fmt::format("{} = {} is not allowed", key, text),
               fmt::format("it must be a number from {} to {}", least, most));
    return value;
}

// The words of a text, one after the other.
std::string_view next_word(std::string_view& text, char separator) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

std::uint8_t operations_in(std::string_view text, const std::string& object) {
    std::uint8_t bits = 0;
    do bits |= kOperationBits[find(next_word(text, ','), kOperations, "operation", object)];
    while (!text.empty());
    return bits;
}

FaultRule parse_rule(std::string_view words, const std::string& object) {
    FaultRule rule;
    bool first = true;
    while (!words.empty()) {
        std::string_view word = next_word(words, ' ');
        if (word.empty()) continue;
        if (std::exchange(first, false)) {
            set(rule, "action", word, object);
            continue;
        }
        if (word.find('=') == std::string_view::npos)
            refuse(object, fmt::format("{} has no value", word), "write key=value");
        const std::string_view key = next_word(word, '=');
        set(rule, key, word, object);
    }
    check(rule, object);
    return rule;
}

std::string operations_text(std::uint8_t bits) {
    std::string text;
    for (std::size_t i = 0; i + 1 < kOperations.size(); ++i)
        if ((bits & kOperationBits[i]) != 0)
            text += (text.empty() ? "" : ",") + std::string(kOperations[i]);
    return text;
}

std::string_view name(Syndrome syndrome) {
    const auto* const found = std::find(kSyndromeValues.begin(), kSyndromeValues.end(), syndrome);
    return found == kSyndromeValues.end()
               ? "unknown"
               : kSyndromes[static_cast<std::size_t>(found - kSyndromeValues.begin())];
}

std::string to_text(const FaultRule& rule) {
    std::string text =
        fmt::format("{} operations={}", name(rule.action), operations_text(rule.operations));
    text += rule.nth != 0 ? fmt::format(" nth={} times={}", rule.nth, rule.times)
                          : fmt::format(" rate={} seed={}", rule.rate, rule.seed);
    if (rule.action == FaultAction::delay) text += fmt::format(" delay_us={}", rule.delay.count());
    if (rule.action == FaultAction::fail) text += fmt::format(" syndrome={}", name(rule.syndrome));
    if (rule.payload) text += " payload=true";
    return text;
}

}  // namespace

std::string_view name(FaultAction action) noexcept {
    return kActions[static_cast<std::size_t>(action)];
}

void set(FaultRule& rule, std::string_view key, std::string_view value, const std::string& object) {
    constexpr std::uint64_t kAny = ~std::uint64_t{0};
    switch (find(key, kKeys, "key of a fault,", object)) {
        case 0:
            rule.action = static_cast<FaultAction>(find(value, kActions, "action", object));
            return;
        case 1:
            rule.operations = operations_in(value, object);
            return;
        case 2:
            rule.nth = number<std::uint64_t>(key, value, 1, kAny, object);
            return;
        case 3:
            rule.times = number<std::uint64_t>(key, value, 1, kAny, object);
            return;
        case 4:
            rule.rate = number<double>(key, value, 0, 1, object);
            return;
        case 5:
            rule.seed = number<std::uint64_t>(key, value, 0, kAny, object);
            return;
        case 6:
            rule.delay = std::chrono::microseconds(
                number<std::int64_t>(key, value, 1, kLongestDelayUs, object));
            return;
        case 7:
            rule.syndrome = kSyndromeValues[find(value, kSyndromes, "syndrome", object)];
            return;
        default:
            if (value != "true" && value != "false")
                refuse(object, fmt::format("payload = {} is not allowed", value),
                       "it must be true or false");
            rule.payload = value == "true";
    }
}

void check(const FaultRule& rule, const std::string& object) {
    const auto unless = [&](bool good, std::string_view cause, const char* remedy) {
        if (!good) refuse(object, fmt::format("{}: {}", name(rule.action), cause), remedy);
    };
    unless((rule.nth != 0) != (rule.rate > 0), "when it strikes is not said, or said twice",
           "give it nth, or a rate above 0");
    unless(rule.rate >= 0 && rule.rate <= 1, "the rate is no probability",
           "give it a rate above 0, at most 1");
    unless(rule.times == 1 || rule.nth != 0, "times goes with nth only", "leave it out");
    unless(rule.times != 0, "times is 0", "give it 1 at least");
    unless((rule.operations & kFaultAll) != 0, "no operation is named", "name one");
    unless((rule.delay.count() > 0) == (rule.action == FaultAction::delay),
           "delay_us goes with delay, which needs it", "give the time to delay, and to it alone");
    unless(!rule.payload || rule.action == FaultAction::corrupt, "payload goes with corrupt only",
           "leave it out");
    unless(!rule.payload || (rule.operations & (kFaultRead | kFaultAtomic)) == 0,
           "what reads and atomics bring cannot be changed unnoticed",
           "add operations = send,write");
}

FaultPolicy parse_faults(std::string_view text, const std::string& object) {
    FaultPolicy policy;
    while (!text.empty()) {
        const std::string_view words = next_word(text, ';');
        if (words.find_first_not_of(' ') == std::string_view::npos) continue;
        policy.rules.push_back(parse_rule(words, object));
    }
    return policy;
}

std::string to_text(const FaultPolicy& policy) {
    std::string text;
    for (const FaultRule& rule : policy.rules) text += (text.empty() ? "" : "; ") + to_text(rule);
    return text;
}

}  // namespace verbatim::softnic
