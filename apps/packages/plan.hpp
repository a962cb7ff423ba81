// The links of a database, resolved to numbers, before any object exists: each repetition of the
// database in a graph has the same links, and every list can be made with its final length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "packages/database.hpp"

namespace packages {

using Number = std::uint32_t;

struct Plan {
    static constexpr Number kNone = ~Number{0};

    struct Link {
        Number target;        // name
        Number architecture;  // kNone if not qualified
        std::string_view version;
        Kind kind;
        Relation relation;
        bool or_next;
    };
    struct Entry {
        const Record* record;  // with a version
        Number maintainer;     // kNone if there is none
        Number architecture;
        std::vector<Link> links;
        std::vector<Number> provided;  // names, one for each of record->provides
    };
    struct Name {
        std::string_view text;
        std::vector<Entry> entries;
        std::vector<Number> provided_by;  // names
        std::vector<Number> required_by;
    };
    struct Maintainer {
        std::string_view name;
        std::string_view email;
        std::vector<Number> names;
    };

    std::vector<Name> names;  // in order of first mention
    std::vector<Maintainer> maintainers;
    std::vector<std::string_view> architectures;
};

// The views are the database's.
Plan make_plan(const Database& database);

}  // namespace packages
