// What the program and its plugins share.
#pragma once

#include <string>

#include <verbatim/objects.hpp>

struct Instrument {
    virtual ~Instrument() = default;
    virtual std::string play() const = 0;
};
VERBATIM_DESCRIBE(Instrument)
