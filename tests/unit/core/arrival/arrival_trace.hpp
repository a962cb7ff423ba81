// The words for an action of the model of the arrival protocol.
#pragma once

#include <string>

#include "arrival_model.hpp"

namespace verbatim::arrival_model {

// What an action did, by the states before and behind it.
std::string describe(const State& from, Action action, const State& to);

}  // namespace verbatim::arrival_model
