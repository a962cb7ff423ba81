// The syntax of relationship fields (deb-control(5), Debian policy 7.1):
//     a (>= 1.0) | b:any, c
// is a list of clauses, each a list of alternatives.
#pragma once

#include <string_view>
#include <vector>

#include "packages/control_file.hpp"
#include "packages/graph.hpp"

namespace packages {

// One alternative as it is written; views into the input.
struct WrittenAlternative {
    std::string_view package;
    std::string_view architecture;
    Relation relation = Relation::any;
    std::string_view version;
};

using Clause = std::vector<WrittenAlternative>;

// Throws input_error at `place` for anything that dpkg would refuse too.
std::vector<Clause> parse_relations(std::string_view text, Place place);

// A name that dpkg accepts: a letter or digit, then at least one of letters, digits and "+-._" .
bool is_package_name(std::string_view name) noexcept;

}  // namespace packages
