// An exploration visits every state of a variant of the arrival protocol, breadth first, so that
// traces are the shortest ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arrival_model.hpp"

namespace verbatim::arrival_model {

class Exploration {
  public:
    // Of all states, or up to the first one with this fault.
    explicit Exploration(const Variant& variant, Wrong sought = Wrong::nothing);

    std::size_t states() const { return states_.size(); }
    unsigned most_immediates() const { return most_immediates_; }
    // Requests of the receiver that had not retired.
    unsigned most_unretired() const { return most_unretired_; }
    // States without an end of their own in which the receiver is noted.
    std::size_t noted_ends() const { return noted_ends_; }
    // The shortest way to each fault.
    const std::map<Wrong, std::string>& traces() const { return traces_; }

  private:
    struct Origin {
        std::uint32_t state = 0;
        Action action{};
    };
    struct HashBytes {
        std::size_t operator()(const State& state) const {
            return std::hash<std::string_view>{}(
                {reinterpret_cast<const char*>(&state), sizeof state});
        }
    };

    std::uint32_t enter(const State& state, Origin origin);
    void expand(std::size_t at);
    bool follow(std::size_t at, Action action);
    void end(std::size_t at);
    void note(Wrong wrong, std::size_t at);
    std::string way_to(std::size_t at) const;
    bool has_cycle() const;

    Model model_;
    std::vector<State> states_;
    std::vector<Origin> origins_;  // of the states
    std::unordered_map<State, std::uint32_t, HashBytes> numbers_;
    std::vector<std::uint32_t> edges_;  // in the order of the states that they leave
    std::vector<std::size_t> first_edge_;
    std::map<Wrong, std::string> traces_;
    unsigned most_immediates_ = 0, most_unretired_ = 0;
    std::size_t noted_ends_ = 0;
};

// Expects no fault in any state, and prints how many there are.
void expect_right(const Variant& variant);
// Expects a fault, and prints its counterexample, which is what the test is for.
void expect_wrong(const Variant& variant, Wrong wrong);

}  // namespace verbatim::arrival_model
