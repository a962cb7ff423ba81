// A fault policy makes the software NIC fail on purpose, to test programs against a faulty fabric.
// A rule names an action and its time: the nth operation, or a rate that a seed makes repeatable.
// Each queue pair counts its own operations, which are tries: a reliable connection that tries
// again counts again. So the same program with the same policy has the same faults, independent of
// its threads. docs/softnic.md describes each action's effect on a program.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/mlx5/formats.hpp>

namespace verbatim::softnic {

// Fail: an error completion, and the queue pair in error. Delay: the request waits, and all behind
// it. Stall: likewise, without an end. Drop: lost on the way. Duplicate: arrives twice. Corrupt:
// arrives damaged. Disconnect: the peer counts as gone, for unanswered requests too. Kill: the
// process ends by SIGKILL.
enum class FaultAction : std::uint8_t {
    fail,
    delay,
    drop,
    duplicate,
    corrupt,
    kill,
    stall,
    disconnect
};
inline constexpr std::size_t kFaultActions = 8;
[[gnu::visibility("default")]] std::string_view name(FaultAction action) noexcept;

// Bits. With an immediate, with invalidation, masked or not: the same kind.
enum FaultOperations : std::uint8_t {
    kFaultSend = 1,
    kFaultWrite = 2,
    kFaultRead = 4,
    kFaultAtomic = 8,
    kFaultAll = 15
};

struct FaultRule {
    FaultAction action = FaultAction::fail;
    std::uint8_t operations = kFaultAll;  // which are counted, and hit
    // Either: the nth of them, from 1, and those after it, `times` in all. 0: by rate.
    std::uint64_t nth = 0, times = 1;
    // Or: each with this probability, above 0, at most 1.
    double rate = 0;
    std::uint64_t seed = 1;
    std::chrono::microseconds delay{0};                          // of delay
    mlx5::Syndrome syndrome = mlx5::Syndrome::remote_operation;  // of fail
    bool payload = false;  // corrupt: the first byte of a send or write arrives wrong, unnoticed
};

// Of several rules that strike the same operation, the first one acts; all have counted it.
struct FaultPolicy {
    std::vector<FaultRule> rules;
};

// In words, as the environment and configuration files have it, rules separated by ';':
// "drop operations=send,write nth=5; delay rate=0.01 seed=7 delay_us=200". `object` names the
// place in errors. Throws Error(config_error).
FaultPolicy parse_faults(std::string_view text, const std::string& object);
[[gnu::visibility("default")]] std::string to_text(const FaultPolicy& policy);

// One value of a rule by its name, "action" too. Throws Error(config_error).
[[gnu::visibility("default")]] void set(FaultRule& rule, std::string_view key,
                                        std::string_view value, const std::string& object);
// Checks the values of a rule together. Throws Error(config_error).
[[gnu::visibility("default")]] void check(const FaultRule& rule, const std::string& object);

}  // namespace verbatim::softnic
