// The cores that a thread of ours may run on. Control path.
#pragma once

#include <sched.h>

#include <string>
#include <thread>

#include <verbatim/core/config.hpp>

namespace verbatim::placement {

using Cores = cpu_set_t;

// What the section asks for, as far as this process may use it. Throws Error(config_error) where
// nothing is left.
Cores cores_of(const Config::PollerSection& section);

// The cores of a kernel list: "0-3,8". Throws Error(config_error) about `object`.
Cores parse_list(const std::string& list, const std::string& object);

// Throws Error(config_error).
void pin(std::thread& thread, const Cores& cores);

}  // namespace verbatim::placement
