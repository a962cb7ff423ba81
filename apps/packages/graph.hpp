// The package graph: what a Debian package database says, as plain objects that point at each
// other.
//
// Everything is an ordinary aggregate of std::pmr members and raw pointers, so that the library can
// send it with no registration. The graph is shared (a maintainer looks after many versions, a
// package is named by many requirements) and cyclic (version <-> package, version <-> requirement,
// packages that depend on each other). Owner: all objects live in the memory resource they were
// built in and are freed with it, never one by one.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

namespace packages {

using Text = std::pmr::string;
template <class T>
using List = std::pmr::vector<T>;

// The relationship fields of deb-control(5), except Provides.
enum class Kind : std::uint8_t {
    depends,
    pre_depends,
    recommends,
    suggests,
    enhances,
    breaks,
    conflicts,
    replaces,
};

// How a version must relate to the one that is named: "<<", "<=", "=", ">=", ">>".
enum class Relation : std::uint8_t { any, earlier, earlier_equal, equal, later_equal, later };

enum class MultiArch : std::uint8_t { no, same, foreign, allowed };

struct Package;
struct Version;
struct Requirement;

// "libc6:any (>= 2.36)": one way to satisfy a requirement.
struct Alternative {
    Package* target;  // never null; a package nobody has heard of has no versions and no providers
    Relation relation;
    Text version;       // empty if relation is any
    Text architecture;  // the qualifier, "any" in the example; mostly empty
};

// "a | b (>= 2)": satisfied by any of its alternatives.
struct Requirement {
    Version* owner;
    Kind kind;
    List<Alternative> alternatives;
};

// "Provides: mail-transport-agent (= 1.0)".
struct Provision {
    Package* package;
    Text version;  // mostly empty
};

// A field without a type of its own here, as it was written.
struct Field {
    Text name;
    Text value;
};

struct Maintainer {
    Text name;   // "Debian Adduser Developers"
    Text email;  // empty if none was given
    List<Version*> versions;
};

struct Version {
    Package* package;
    Maintainer* maintainer;  // null if the database names none
    Text number;
    Text architecture;
    Text section;
    Text priority;
    Text status;   // "install ok installed"; empty in lists of an archive
    Text summary;  // first line of the description
    Text description;
    std::uint64_t installed_kib;
    MultiArch multi_arch;
    bool essential;
    List<Requirement*> requirements;
    List<Provision> provisions;
    List<Field> other_fields;
};

struct Package {
    Text name;
    List<Version*> versions;  // empty: a virtual package, or one that is only mentioned
    List<Version*> provided_by;
    List<Requirement*> required_by;  // reverse dependencies of every kind
};

// The root.
struct Graph {
    List<Package*> packages;  // in order of first mention
    List<Maintainer*> maintainers;
};

}  // namespace packages
