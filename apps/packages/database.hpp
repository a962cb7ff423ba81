// A package database, read and checked, but not yet linked: what /var/lib/dpkg/status or an
// archive's Packages list says about each package. build_graph() makes the graph of it, as many
// times over as wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "packages/control_file.hpp"
#include "packages/graph.hpp"
#include "packages/relations.hpp"

namespace packages {

// One stanza; the views point into Database::text.
struct Record {
    std::string_view name;
    std::string_view version;
    std::string_view architecture;
    std::string_view section;
    std::string_view priority;
    std::string_view status;
    std::string_view source;
    std::string_view homepage;
    std::string_view maintainer_name;
    std::string_view maintainer_email;
    std::string_view summary;
    std::string_view description;
    std::uint64_t installed_kib = 0;
    MultiArch multi_arch = MultiArch::no;
    bool essential = false;
    std::vector<std::pair<Kind, std::vector<Clause>>> relations;
    std::vector<WrittenAlternative> provides;
    std::vector<RawField> other_fields;
};

struct Database {
    std::unique_ptr<const std::string>
        text;                       // at a fixed address: the records' views point into it
    std::vector<Record> records;    // in the order of the file, at least one
    std::size_t package_count = 0;  // different names with a version
};

// `name` stands for the text in messages. Throws Error(invalid_argument) with file, line and cause.
Database parse_database(std::string text, std::string_view name);
Database load_database(const std::string& path);

}  // namespace packages
