// Makes the package graph of an in-place reader's message, to compare it with what was sent. The
// accessors of FlatBuffers and Cap'n Proto differ in form only; `View` hides that:
//   text(x), a std::string_view; count(list); at(list, n), element n.
// Fields are read by the functions of `View` that are named as they are.
#pragma once

#include "graph_numbers.hpp"
#include "packages/maker.hpp"

namespace bench_graph {

template <class View>
class PackageReader {
  public:
    explicit PackageReader(std::pmr::memory_resource& memory) : maker_(memory) {}

    // Everything that a pointer may lead to is made before the first pointer.
    template <class Message>
    const packages::Graph* read(const Message& message) {
        graph_ = maker_.graph();
        fill(graph_->packages, View::packages(message),
             [&](const auto& each) { return maker_.package(View::name(each)); });
        fill(graph_->maintainers, View::maintainers(message), [&](const auto& each) {
            return maker_.maintainer(View::name(each), View::email(each));
        });
        fill(graph_->architectures, View::architectures(message),
             [&](const auto& each) { return maker_.architecture(View::name(each)); });
        const auto from = View::packages(message);
        for (unsigned n = 0; n < View::count(from); ++n)
            read(View::at(from, n), graph_->packages[n]);
        const auto maintainers = View::maintainers(message);
        for (unsigned n = 0; n < View::count(maintainers); ++n)
            numbers(graph_->maintainers[n]->packages, View::numbers(View::at(maintainers, n)));
        return graph_;
    }

  private:
    template <class List, class From, class Make>
    static void fill(List& list, const From& from, Make make) {
        list.reserve(View::count(from));
        for (unsigned n = 0; n < View::count(from); ++n) list.push_back(make(View::at(from, n)));
    }
    template <class From>
    void numbers(packages::List<packages::Package*>& list, const From& from) {
        fill(list, from,
             [&](std::uint32_t number) { return pointer_of(number, graph_->packages); });
    }

    template <class From>
    void read(const From& from, packages::Package& package) {
        fill(package.versions, View::versions(from),
             [&](const auto& each) { return version(each); });
        numbers(package.provided_by, View::provided_by(from));
        numbers(package.required_by, View::required_by(from));
    }

    template <class From>
    packages::Version version(const From& from) {
        packages::Version version = View::values(from, maker_);
        version.maintainer = pointer_of(View::maintainer(from), graph_->maintainers);
        version.architecture = pointer_of(View::architecture(from), graph_->architectures);
        fill(version.dependencies, View::dependencies(from), [&](const auto& each) {
            packages::Dependency made = View::dependency(each, maker_);
            made.target = pointer_of(View::target(each), graph_->packages);
            made.architecture = pointer_of(View::architecture(each), graph_->architectures);
            return made;
        });
        fill(version.provisions, View::provisions(from), [&](const auto& each) {
            return packages::Provision{pointer_of(View::package(each), graph_->packages),
                                       maker_.text(View::version(each))};
        });
        fill(version.other_fields, View::other_fields(from), [&](const auto& each) {
            return packages::Field{maker_.text(View::name(each)), maker_.text(View::value(each))};
        });
        return version;
    }

    packages::Maker maker_;
    packages::Graph* graph_ = nullptr;
};

}  // namespace bench_graph
