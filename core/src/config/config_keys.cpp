// The table of keys and the small languages of their values: sizes ("64M") and durations ("20us").
#include "config_keys.hpp"

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <verbatim/driver/quantity.hpp>

namespace verbatim {
namespace {

using Setter = std::function<bool(Config&, const ConfigValue&)>;
using std::chrono::nanoseconds;

constexpr std::int64_t kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

std::optional<std::int64_t> size_of(const ConfigValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? std::nullopt : parse_size(*text);
}

std::optional<nanoseconds> duration_of(const ConfigValue& value) {
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? std::nullopt : parse_duration(*text);
}

enum class Shape { any, power_of_two };

template <class Member>
Setter size(Member member, std::int64_t least, std::int64_t most, Shape shape = Shape::any) {
    return [=](Config& config, const ConfigValue& value) {
        const auto bytes = size_of(value);
        if (!bytes || *bytes < least || *bytes > most) return false;
        if (shape == Shape::power_of_two &&
            !std::has_single_bit(static_cast<std::uint64_t>(*bytes)))
            return false;
        member(config) = static_cast<std::remove_reference_t<decltype(member(config))>>(*bytes);
        return true;
    };
}

template <class Member>
Setter integer(Member member, std::int64_t least, std::int64_t most, Shape shape = Shape::any) {
    return [set = size(member, least, most, shape)](Config& config, const ConfigValue& value) {
        return std::holds_alternative<std::int64_t>(value) && set(config, value);
    };
}

// Refuses what the member cannot hold exactly: "1500us" is no whole number of milliseconds.
template <class Member>
Setter duration(Member member, nanoseconds least, nanoseconds most) {
    return [=](Config& config, const ConfigValue& value) {
        const auto time = duration_of(value);
        if (!time || *time < least || *time > most) return false;
        using Unit = std::remove_reference_t<decltype(member(config))>;
        member(config) = std::chrono::duration_cast<Unit>(*time);
        return member(config) == *time;
    };
}

template <class Member>
Setter boolean(Member member) {
    return [=](Config& config, const ConfigValue& value) {
        const auto* flag = std::get_if<bool>(&value);
        if (flag != nullptr) member(config) = *flag;
        return flag != nullptr;
    };
}

template <class Member>
Setter text(Member member) {
    return [=](Config& config, const ConfigValue& value) {
        const auto* words = std::get_if<std::string>(&value);
        if (words != nullptr) member(config) = *words;
        return words != nullptr;
    };
}

template <class T, class Member>
Setter one_of(Member member, std::vector<std::pair<std::string_view, T>> choices) {
    return [=](Config& config, const ConfigValue& value) {
        const auto* words = std::get_if<std::string>(&value);
        if (words == nullptr) return false;
        for (const auto& [name, meaning] : choices)
            if (name == *words) {
                member(config) = meaning;
                return true;
            }
        return false;
    };
}

// A member of a section as a function of the whole.
template <class Section, class Value>
auto at(Section Config::*section, Value Section::*member) {
    return [=](Config& config) -> Value& { return (config.*section).*member; };
}

void add_device(std::vector<ConfigKey>& keys) {
    using D = Config::DeviceSection;
    keys.push_back(
        {"device", "kind", R"("auto", "softnic" or "rdma")",
         one_of<std::string>(at(&Config::device, &D::kind),
                             {{"auto", "auto"}, {"softnic", "softnic"}, {"rdma", "rdma"}})});
    keys.push_back({"device", "name", "a text", text(at(&Config::device, &D::name))});
    keys.push_back({"device", "port", "a number from 1 to 255",
                    integer(at(&Config::device, &D::port), 1, 255)});
    keys.push_back({"device", "gid_index", "a number from -1 to 255",
                    integer(at(&Config::device, &D::gid_index), -1, 255)});
    keys.push_back({"device", "service_level", "a number from 0 to 15",
                    integer(at(&Config::device, &D::service_level), 0, 15)});
    keys.push_back({"device", "traffic_class", "a number from 0 to 255",
                    integer(at(&Config::device, &D::traffic_class), 0, 255)});
    keys.push_back({"device", "assume_in_order", "true or false",
                    boolean(at(&Config::device, &D::assume_in_order))});
    keys.push_back({"device", "data_path", R"("auto", "mlx5" or "verbs")",
                    one_of<std::string>(at(&Config::device, &D::data_path),
                                        {{"auto", "auto"}, {"mlx5", "mlx5"}, {"verbs", "verbs"}})});
    keys.push_back({"device", "strict_doorbells", "true or false",
                    boolean(at(&Config::device, &D::strict_doorbells))});
    keys.push_back({"device", "same_user_only", "true or false",
                    boolean(at(&Config::device, &D::same_user_only))});
    keys.push_back({"device.softnic", "port", R"("auto", "shm" or "tcp")",
                    one_of<std::string>(at(&Config::softnic, &Config::SoftnicSection::port),
                                        {{"auto", "auto"}, {"shm", "shm"}, {"tcp", "tcp"}})});
}

void add_arena(std::vector<ConfigKey>& keys, std::string_view name, ArenaOptions Config::*section) {
    using A = ArenaOptions;
    keys.push_back({name, "segment_bytes", "a size from 4K to 64G, a power of two",
                    size(at(section, &A::segment_bytes), 4 * kKi, 64 * kGi, Shape::power_of_two)});
    keys.push_back({name, "max_bytes", "a size from 4K to 64T",
                    size(at(section, &A::max_bytes), 4 * kKi, 64 * kTi)});
    keys.push_back({name, "initial_bytes", "a size from 0 to 64T",
                    size(at(section, &A::initial_bytes), 0, 64 * kTi)});
    keys.push_back({name, "pages", R"("auto", "4K", "2M" or "1G")",
                    one_of<PageChoice>(at(section, &A::pages), {{"auto", PageChoice::automatic},
                                                                {"4K", PageChoice::base_4k},
                                                                {"2M", PageChoice::huge_2m},
                                                                {"1G", PageChoice::huge_1g}})});
    keys.push_back({name, "lock_memory", "true or false", boolean(at(section, &A::lock_memory))});
    keys.push_back({name, "numa_node", "a number from -1 to 1023",
                    integer(at(section, &A::numa_node), -1, 1023)});
}

void add_foreign(std::vector<ConfigKey>& keys) {
    using F = RegistrationOptions;
    keys.push_back({"foreign", "max_bytes", "a size from 4K to 64T",
                    size(at(&Config::foreign, &F::max_bytes), 4 * kKi, 64 * kTi)});
    keys.push_back({"foreign", "max_entries", "a number from 1 to 65536",
                    integer(at(&Config::foreign, &F::max_entries), 1, 65536)});
    keys.push_back({"foreign", "copy_below", "a size from 0 to 1G",
                    size(at(&Config::foreign, &F::copy_below), 0, kGi)});
    keys.push_back({"foreign", "watch", "true or false", boolean(at(&Config::foreign, &F::watch))});
}

void add_connection(std::vector<ConfigKey>& keys) {
    using namespace std::chrono_literals;
    using C = Config::ConnectSection;
    using R = Config::RingSection;
    keys.push_back({"connect", "timeout", R"(a duration from "1ms" to "1000s", whole milliseconds)",
                    duration(at(&Config::connect, &C::timeout), 1ms, 1000s)});
    keys.push_back({"connect", "loopback_only", "true or false",
                    boolean(at(&Config::connect, &C::loopback_only))});
    keys.push_back({"ring", "bytes", "a size from 4K to 64M, a power of two",
                    size(at(&Config::ring, &R::bytes), 4 * kKi, 64 * kMi, Shape::power_of_two)});
    keys.push_back({"ring", "longest_message", "a size from 0 to 4G",
                    size(at(&Config::ring, &R::longest_message), 0, 4 * kGi)});
    keys.push_back({"ring", "send_blocks", "a number from 16 to 32768, a power of two",
                    integer(at(&Config::ring, &R::send_blocks), 16, 32768, Shape::power_of_two)});
}

std::vector<std::pair<std::string_view, LaneMode>> lane_modes() {
    return {{"adaptive", LaneMode::adaptive}, {"busy", LaneMode::busy}, {"event", LaneMode::event}};
}

void add_lane(std::vector<ConfigKey>& keys) {
    using namespace std::chrono_literals;
    using L = Config::LaneSection;
    keys.push_back({"lane", "mode", R"("adaptive", "busy" or "event")",
                    one_of<LaneMode>(at(&Config::lane, &L::mode), lane_modes())});
    keys.push_back({"lane", "spin", R"(a duration from "0us" to "1s", whole microseconds)",
                    duration(at(&Config::lane, &L::spin), 0us, 1s)});
    keys.push_back(
        {"lane", "hot", "a number from 1 to 1024", integer(at(&Config::lane, &L::hot), 1, 1024)});
    keys.push_back({"lane", "completions", "a number from 64 to 4194304, a power of two",
                    integer(at(&Config::lane, &L::completions), 64, 4 * kMi, Shape::power_of_two)});
}

// Of the section that was begun last.
template <class Value>
auto at_poller(Value Config::PollerSection::*member) {
    return [=](Config& config) -> Value& { return config.pollers.back().*member; };
}

void add_poller(std::vector<ConfigKey>& keys) {
    using namespace std::chrono_literals;
    using P = Config::PollerSection;
    keys.push_back({"poller", "name", "a text", text(at_poller(&P::name))});
    keys.push_back(
        {"poller", "core", "a number from -1 to 4095", integer(at_poller(&P::core), -1, 4095)});
    keys.push_back({"poller", "numa_node", "a number from -1 to 1023",
                    integer(at_poller(&P::numa_node), -1, 1023)});
    keys.push_back({"poller", "mode", R"("adaptive", "busy" or "event")",
                    one_of<LaneMode>(at_poller(&P::mode), lane_modes())});
    keys.push_back({"poller", "spin", R"(a duration from "0us" to "1s", whole microseconds)",
                    duration(at_poller(&P::spin), 0us, 1s)});
}

void add_objects(std::vector<ConfigKey>& keys) {
    using namespace std::chrono_literals;
    using O = Config::ObjectsSection;
    keys.push_back({"objects", "staging_bytes", "a size from 4K to 1G",
                    size(at(&Config::objects, &O::staging_bytes), 4 * kKi, kGi)});
    keys.push_back({"objects", "direct_bytes", "a size from 0 to 1G",
                    size(at(&Config::objects, &O::direct_bytes), 0, kGi)});
    keys.push_back(
        {"objects", "checksum", "true or false", boolean(at(&Config::objects, &O::checksum))});
    keys.push_back({"objects", "timeout", R"(a duration from "1ms" to "1000s", whole milliseconds)",
                    duration(at(&Config::objects, &O::timeout), 1ms, 1000s)});
}

std::vector<ConfigKey> make_keys() {
    std::vector<ConfigKey> keys;
    add_device(keys);
    add_arena(keys, "arena", &Config::arena);
    add_arena(keys, "receive_arena", &Config::receive_arena);
    add_foreign(keys);
    add_connection(keys);
    add_lane(keys);
    add_poller(keys);
    add_objects(keys);
    return keys;
}

}  // namespace

std::span<const ConfigKey> config_keys() {
    static const std::vector<ConfigKey> keys = make_keys();
    return keys;
}

}  // namespace verbatim
