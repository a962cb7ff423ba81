// What the tests of the package graph share.
#pragma once

#include <gtest/gtest.h>

#include <memory_resource>
#include <string>
#include <string_view>

#include "packages/build_graph.hpp"
#include "packages/totals.hpp"

namespace packages {

// The message of the verbatim::Error that `action` throws; fails the test if it throws none.
template <class Action>
std::string refusal(Action action) {
    try {
        action();
    } catch (const verbatim::Error& error) {
        return error.what();
    }
    ADD_FAILURE() << "accepted";
    return {};
}

// A graph and the memory it lives in.
struct Built {
    std::pmr::monotonic_buffer_resource memory;
    Graph* graph = nullptr;

    explicit Built(std::string_view text, std::size_t at_least = 0)
        : graph(build_graph(parse_database(std::string(text), "test"), memory, at_least)) {}
    Graph* operator->() const { return graph; }

    Package* package(std::string_view name) const {
        for (Package& package : graph->packages)
            if (package.name == name) return &package;
        ADD_FAILURE() << "no package " << name;
        return nullptr;
    }
};

}  // namespace packages
