// A subject of group `core`: one library's end of the connection, in the cases that it takes part
// in.
//
// An end is a class with a constructor (Side&, const Case&) and these members:
//     std::byte* claim();         memory for the next message of Case::bytes
//     void post();                sends it
//     const std::byte* take();    waits for the next message, which stays until it is released
//     void release();             gives that memory back
//     void progress();            works on what is under way
//     void finish();              waits until everything that was posted needs this side no longer
// Messages arrive in order. With Case::window 1 both sides send by turns.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "meeting.hpp"

namespace verbatim::bench {

enum class Kind : std::uint8_t {
    latency,
    message_rate,
    byte_rate,
    wake,
    poll,       // what a poll of a lane costs
    footprint,  // memory of a connection
    setup,      // connections a second
    idle        // processor time of a process that waits
};

struct Case {
    std::string_view name;
    Kind kind;
    std::size_t bytes;
    unsigned window;           // messages under way
    unsigned connections = 1;  // of one lane
    bool is_long = false;      // only with --long
};

inline constexpr Case kMessage8{"message_8", Kind::latency, 8, 1};
inline constexpr Case kWrite8{"write_8", Kind::latency, 8, 1};
inline constexpr Case kMessage1k{"message_1k", Kind::latency, 1024, 1};
inline constexpr Case kMessage64{"message_64", Kind::latency, 64, 1};
inline constexpr Case kRead64{"read_64", Kind::latency, 64, 1};
inline constexpr Case kKeys100{"keys_100", Kind::latency, 6400, 1};         // of 64 bytes each
inline constexpr Case kFarKeys100{"far_keys_100", Kind::latency, 6400, 1};  // of a long table
inline constexpr Case kMessage64k{"message_64k", Kind::latency, 65536, 1};
inline constexpr Case kMessage1m{"message_1m", Kind::latency, 1048576, 1};
inline constexpr Case kRate8{"rate_8", Kind::message_rate, 8, 1024};
inline constexpr Case kThroughput1k{"throughput_1k", Kind::byte_rate, 1024, 64};
inline constexpr Case kThroughput64k{"throughput_64k", Kind::byte_rate, 65536, 16};
inline constexpr Case kThroughput1m{"throughput_1m", Kind::byte_rate, 1048576, 8};
// Between machines, over the loopback: floors are UDP sockets (bench/core/ends/wire.cpp).
inline constexpr Case kWireMessage8{"wire_message_8", Kind::latency, 8, 1};
inline constexpr Case kWireWrite8{"wire_write_8", Kind::latency, 8, 1};
inline constexpr Case kWire64k{"wire_64k", Kind::byte_rate, 65536, 2};
inline constexpr Case kWake{"wake", Kind::wake, 8, 1};
// Of many connections (bench/core/scale).
inline constexpr Case kHot16{"hot_16", Kind::latency, 8, 1, 16};
inline constexpr Case kArmed17{"armed_17", Kind::latency, 8, 1, 17};
inline constexpr Case kArmed64{"armed_64", Kind::latency, 8, 1, 64};
inline constexpr Case kArmed256{"armed_256", Kind::latency, 8, 1, 256};
inline constexpr Case kArmed512{"armed_512", Kind::latency, 8, 1, 512};
inline constexpr Case kIdle0{"idle_0", Kind::poll, 8, 1, 1};
inline constexpr Case kIdle15{"idle_15", Kind::poll, 8, 1, 16};
inline constexpr Case kIdle100{"idle_100", Kind::poll, 8, 1, 101};
inline constexpr Case kIdle1k{"idle_1000", Kind::poll, 8, 1, 1001, true};
inline constexpr Case kIdle10k{"idle_10000", Kind::poll, 8, 1, 10001, true};
inline constexpr Case kFootprint{"footprint", Kind::footprint, 1024, 1, 128};
inline constexpr Case kSetup{"setup", Kind::setup, 8, 1, 32};
inline constexpr Case kIdleProcess{"idle_process", Kind::idle, 8, 1};
// Writes from memory outside of arenas (bench/core/scale/foreign.cpp).
inline constexpr Case kForeign[] = {
    {"foreign_64", Kind::latency, 64, 1},          {"foreign_256", Kind::latency, 256, 1},
    {"foreign_1k", Kind::latency, 1024, 1},        {"foreign_4k", Kind::latency, 4096, 1},
    {"foreign_16k", Kind::latency, 16384, 1},      {"foreign_64k", Kind::latency, 65536, 1},
    {"foreign_256k", Kind::latency, 262144, 1},    {"foreign_1m", Kind::latency, 1048576, 1},
    {"foreign_4m", Kind::latency, 4 * 1048576, 1},
};
inline constexpr std::string_view kModeCopy = "verbatim.copy", kModeOnDemand = "verbatim.on_demand",
                                  kModeRegistered = "verbatim.registered";

// A case's place in the report.
inline std::size_t case_order(const Case& of) {
    static constexpr const Case* kOrder[] = {
        &kMessage8,     &kWrite8,       &kMessage64,  &kRead64,    &kKeys100,      &kFarKeys100,
        &kMessage1k,    &kMessage64k,   &kMessage1m,  &kRate8,     &kThroughput1k, &kThroughput64k,
        &kThroughput1m, &kWireMessage8, &kWireWrite8, &kWire64k,   &kWake,         &kHot16,
        &kArmed17,      &kArmed64,      &kArmed256,   &kArmed512,  &kIdle0,        &kIdle15,
        &kIdle100,      &kIdle1k,       &kIdle10k,    &kFootprint, &kSetup,        &kIdleProcess};
    if (std::begin(kForeign) <= &of && &of < std::end(kForeign))
        return std::size(kOrder) + static_cast<std::size_t>(&of - kForeign);
    std::size_t place = 0;
    while (kOrder[place] != &of) ++place;
    return place;
}

using Cases = std::initializer_list<const Case*>;
inline constexpr Cases kMessageCases = {&kMessage8,      &kMessage1k,   &kMessage64k,
                                        &kMessage1m,     &kRate8,       &kThroughput1k,
                                        &kThroughput64k, &kThroughput1m};
// For one-sided writes, which the target sees in its memory.
inline constexpr Cases kWriteCases = {&kWrite8, &kMessage1k,    &kMessage64k,    &kMessage1m,
                                      &kRate8,  &kThroughput1k, &kThroughput64k, &kThroughput1m};

// Runs one side of one pass.
using Run = void (*)(Side&, const Case&);

struct Subject {
    const Case* of;
    std::string name;
    Run run;

    std::string full_name() const { return std::string(of->name) + '/' + name; }
};
using Subjects = std::vector<Subject>;

inline void add(Subjects& all, std::string_view name, Run run, Cases cases) {
    for (const Case* one : cases) all.push_back({one, std::string(name), run});
}

void add_floors(Subjects& all);
void add_verbatim(Subjects& all);
void add_verbatim_tagged(Subjects& all);
void add_ucx(Subjects& all);
void add_libfabric(Subjects& all);
void add_zeromq(Subjects& all);
void add_sockets(Subjects& all);
void add_wire(Subjects& all);
void add_many(Subjects& all);
void add_reads(Subjects& all);
void add_foreign(Subjects& all);
void add_polls(Subjects& all);
void add_footprints(Subjects& all);
void add_setups(Subjects& all);
void add_idle(Subjects& all);

}  // namespace verbatim::bench
