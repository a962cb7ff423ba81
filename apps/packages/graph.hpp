// The package graph: what a Debian package database says, as plain objects: values for what has one
// owner, pointers for everything that is shared or refers back.
//
// Everything is an ordinary aggregate of std::pmr members and raw pointers, so that the library can
// send it with no registration. The graph is shared (a maintainer looks after many packages, a
// package is named by many dependencies) and cyclic (package <-> maintainer, package <-> package in
// both directions of a dependency, and packages that depend on each other). Owner: all objects live
// in the memory resource they were built in and are freed with it, never one by one.
// Graph::packages never grows once built: pointers lead to its elements.
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

struct Architecture {
    Text name;
};

struct Maintainer {
    Text name;                // "Debian Adduser Developers"
    Text email;               // empty if none was given
    List<Package*> packages;  // one entry for each version
};

// "libc6:any (>= 2.36)". Of "a | b, c", a and b are two dependencies, either of which would do.
struct Dependency {
    Package*
        target;  // never null; a name that nobody has heard of has no versions and no providers
    Architecture* architecture;  // the qualifier, "any" in the example; mostly null
    Text version;                // empty if relation is any
    Kind kind;
    Relation relation;
    bool or_next;  // the next dependency would do instead
};

// "Provides: mail-transport-agent (= 1.0)".
struct Provision {
    Package* package;
    Text version;  // mostly empty
};

// A field without a member of its own here, as it was written.
struct Field {
    Text name;
    Text value;
};

struct Version {
    Maintainer* maintainer;      // null if the database names none
    Architecture* architecture;  // null if the database names none
    Text number;
    Text section;
    Text priority;
    Text status;  // "install ok installed"; empty in lists of an archive
    Text source;
    Text homepage;
    Text summary;  // first line of the description
    Text description;
    std::uint64_t installed_kib;
    MultiArch multi_arch;
    bool essential;
    List<Dependency> dependencies;
    List<Provision> provisions;
    List<Field> other_fields;
};

struct Package {
    Text name;
    List<Version> versions;      // empty: a virtual package, or one that is only mentioned
    List<Package*> provided_by;  // one entry for each provision
    List<Package*>
        required_by;  // reverse dependencies of every kind, one entry for each dependency
};

// The root.
struct Graph {
    List<Package> packages;
    List<Maintainer*> maintainers;
    List<Architecture*> architectures;
};

}  // namespace packages
