// The words of fault policies, when their rules strike, and what they say of mistakes.
#include <verbatim/softnic/fault_policy.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "faults/fault_injector.hpp"

namespace verbatim::softnic {
namespace {

std::string complaint(std::string_view text) {
    try {
        (void)parse_faults(text, "there");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        return error.what();
    }
    return "accepted";
}

// Which of the first `count` operations of one kind are struck, from 1.
std::vector<int> struck(const std::string& policy, int count, std::uint64_t ordinal = 0,
                        std::uint8_t operation = kFaultSend) {
    FaultInjector injector(parse_faults(policy, "test"), ordinal);
    std::vector<int> found;
    for (int i = 1; i <= count; ++i) {
        if (injector.strikes(operation) != nullptr) found.push_back(i);
        injector.next_request();
    }
    return found;
}

TEST(FaultPolicy, what_it_writes_it_reads) {
    const std::string text =
        "fail operations=send,read nth=3 times=2 syndrome=remote_access; "
        "delay operations=send,write,read,atomic rate=0.015625 seed=9 delay_us=250; "
        "corrupt operations=write nth=1 times=1 payload=true";
    EXPECT_EQ(to_text(parse_faults(text, "test")), text);
    EXPECT_EQ(to_text(parse_faults(" kill  nth=7 ;; ", "test")),
              "kill operations=send,write,read,atomic nth=7 times=1");
    EXPECT_TRUE(parse_faults("", "test").rules.empty());
}

TEST(FaultPolicy, mistakes_are_named_with_a_remedy) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"drip nth=1", "there: unknown action drip; did you mean drop?"},
        {"drop nht=1", "unknown key of a fault, nht; did you mean nth?"},
        {"drop nonsense=1", "known are: action, operations, nth"},
        {"drop operations=send,writ nth=1", "unknown operation writ; did you mean write?"},
        {"drop nth", "nth has no value; write key=value"},
        {"drop nth=0", "nth = 0 is not allowed; it must be a number from 1"},
        {"drop nth=-1", "nth = -1 is not allowed"},
        {"drop nth=1x", "nth = 1x is not allowed"},
        {"drop nth=", "nth =  is not allowed"},
        {"drop rate=1.5", "rate = 1.5 is not allowed; it must be a number from 0 to 1"},
        {"drop rate=nan", "rate = nan is not allowed"},
        {"drop", "drop: when it strikes is not said, or said twice"},
        {"drop rate=0", "when it strikes is not said"},
        {"drop nth=1 rate=0.5", "said twice"},
        {"drop rate=0.5 times=2", "times goes with nth only"},
        {"delay nth=1", "delay_us goes with delay, which needs it"},
        {"drop nth=1 delay_us=5", "delay_us goes with delay"},
        {"delay nth=1 delay_us=60000001", "it must be a number from 1 to 60000000"},
        {"fail nth=1 syndrome=flushed", "unknown syndrome flushed; known are: local_length"},
        {"drop nth=1 payload=true", "payload goes with corrupt only"},
        {"corrupt nth=1 payload=true", "add operations = send,write"},
        {"corrupt nth=1 payload=yes", "payload = yes is not allowed; it must be true or false"}};
    for (const auto& [text, said] : cases)
        EXPECT_NE(complaint(text).find(said), std::string::npos) << text << ": " << complaint(text);
}

TEST(FaultPolicy, strikes_the_nth_operation_and_those_behind_it) {
    EXPECT_EQ(struck("drop nth=3", 10), (std::vector<int>{3}));
    EXPECT_EQ(struck("drop nth=3 times=4", 10), (std::vector<int>{3, 4, 5, 6}));
    EXPECT_EQ(struck("drop nth=2; fail nth=5", 10), (std::vector<int>{2, 5}));
}

TEST(FaultPolicy, counts_the_operations_that_it_names) {
    FaultInjector injector(parse_faults("drop operations=write nth=2", "test"), 0);
    std::vector<int> found;
    int at = 0;
    for (const std::uint8_t kind :
         {kFaultWrite, kFaultSend, kFaultRead, kFaultAtomic, kFaultWrite, kFaultWrite}) {
        ++at;
        if (injector.strikes(kind) != nullptr) found.push_back(at);
        injector.next_request();
    }
    EXPECT_EQ(found, (std::vector<int>{5}));
    EXPECT_TRUE(struck("kill nth=1", 3, 0, 0).empty());  // no operation that leaves the device
}

TEST(FaultPolicy, decides_once_for_a_request_that_waits_and_anew_for_each_try) {
    FaultInjector injector(parse_faults("drop nth=1 times=2", "test"), 0);
    for (int look = 0; look < 5; ++look) EXPECT_NE(injector.strikes(kFaultSend), nullptr);
    EXPECT_EQ(injector.counted(FaultAction::drop), 1u);
    EXPECT_EQ(injector.try_again(), 1u);
    EXPECT_NE(injector.strikes(kFaultSend), nullptr);
    EXPECT_EQ(injector.try_again(), 2u);
    EXPECT_EQ(injector.strikes(kFaultSend), nullptr);
    EXPECT_EQ(injector.counted(FaultAction::drop), 2u);
    EXPECT_EQ(injector.counted(FaultAction::fail), 0u);
}

TEST(FaultPolicy, same_seed_same_faults) {
    const std::string policy = "drop rate=0.1 seed=";
    const auto once = struck(policy + "7", 1000);
    EXPECT_EQ(once, struck(policy + "7", 1000));
    EXPECT_NE(once, struck(policy + "8", 1000));
    EXPECT_NE(once, struck(policy + "7", 1000, 1));  // the device's next queue pair
    // Written down, so that a seed of today means the same tomorrow.
    EXPECT_EQ(std::vector<int>(once.begin(), once.begin() + 4), (std::vector<int>{7, 17, 18, 32}));
}

TEST(FaultPolicy, strikes_at_its_rate) {
    EXPECT_EQ(struck("drop rate=1", 100).size(), 100u);
    const auto tenth = struck("drop rate=0.1", 100000).size();
    EXPECT_GT(tenth, 9500u);  // five standard deviations
    EXPECT_LT(tenth, 10500u);
}

}  // namespace
}  // namespace verbatim::softnic
