// A verifying traversal by hand of the package graph. Pointers to packages lead into the root's
// array; maintainers and architectures are shared.
#pragma once

#include "../workloads/packages.hpp"
#include "composed_checks.hpp"

namespace bench_graph::by_hand {

class PackageMover {
  public:
    PackageMover(packages::Graph& graph, const Places& places, const Starts& starts,
                 const Memory& memory)
        : places_(places),
          starts_(starts),
          memory_(memory),
          packages_(graph.packages, places, starts) {}

    void move(packages::Graph& graph) const {
        for (packages::Package& package : graph.packages) move(package);
        array(graph.maintainers);
        for (packages::Maintainer*& maintainer : graph.maintainers) follow(maintainer);
        array(graph.architectures);
        for (packages::Architecture*& architecture : graph.architectures) follow(architecture);
    }

  private:
    void text(packages::Text& text) const { move_text(text, places_, starts_); }
    template <class T>
    void array(packages::List<T>& list) const {
        move_vector(list, places_, starts_);
    }
    void links(packages::List<packages::Package*>& list) const {
        array(list);
        for (packages::Package*& package : list) packages_.move(package);
    }
    void follow(packages::Maintainer*& field) const {
        packages::Maintainer* const maintainer =
            starts_.follow<packages::Maintainer, 1>(field, memory_);
        if (maintainer == nullptr) return;
        text(maintainer->name);
        text(maintainer->email);
        links(maintainer->packages);
    }
    void follow(packages::Architecture*& field) const {
        if (auto* const architecture = starts_.follow<packages::Architecture, 2>(field, memory_))
            text(architecture->name);
    }
    static void check_bool(const bool& value) {
        check(reinterpret_cast<const unsigned char&>(value) <= 1);
    }

    void move(packages::Package& package) const {
        text(package.name);
        array(package.versions);
        for (packages::Version& version : package.versions) move(version);
        links(package.provided_by);
        links(package.required_by);
    }
    void move(packages::Version& version) const {
        follow(version.maintainer);
        follow(version.architecture);
        for (packages::Text* const each :
             {&version.number, &version.section, &version.priority, &version.status,
              &version.source, &version.homepage, &version.summary, &version.description})
            text(*each);
        check_bool(version.essential);
        array(version.dependencies);
        for (packages::Dependency& dependency : version.dependencies) move(dependency);
        array(version.provisions);
        for (packages::Provision& provision : version.provisions) {
            packages_.move(provision.package);
            text(provision.version);
        }
        array(version.other_fields);
        for (packages::Field& field : version.other_fields) {
            text(field.name);
            text(field.value);
        }
    }
    void move(packages::Dependency& dependency) const {
        packages_.move(dependency.target);
        follow(dependency.architecture);
        text(dependency.version);
        check_bool(dependency.or_next);
    }

    const Places& places_;
    const Starts& starts_;
    const Memory& memory_;
    const Array<packages::Package> packages_;
};

inline packages::Graph* receive(packages::Graph* sent, const Memory& memory, std::byte* map) {
    const auto [places, starts, root] = Begun<packages::Graph, Starts>(sent, memory, map);
    PackageMover(*root, places, starts, memory).move(*root);
    return root;
}

}  // namespace bench_graph::by_hand
