// cereal: the graph as nested values and numbers, read straight into linked objects.
//
// cereal has an answer of its own to sharing and cycles: std::shared_ptr fields, tracked by the
// archive. It recurses once per link and would overflow the stack on this graph, and it would
// demand other objects than the ones to be sent; numbers are what a user of cereal is left with
// here.
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include "../workloads/packages.hpp"
#include "cereal_wire.hpp"
#include "graph_numbers.hpp"
#include "packages/maker.hpp"
#include "peer_subject.hpp"

namespace packages {

template <class Archive>
void serialize(Archive& archive, Field& field) {
    archive(field.name, field.value);
}

// What of a version is a value.
template <class Archive>
void serialize(Archive& archive, Version& v) {
    archive(v.number, v.section, v.priority, v.status, v.source, v.homepage, v.summary,
            v.description, v.installed_kib, v.multi_arch, v.essential);
}

template <class Archive>
void serialize(Archive& archive, Dependency& d) {
    archive(d.version, d.kind, d.relation, d.or_next);
}

}  // namespace packages

namespace bench_graph {
namespace {

using cereal::make_size_tag;

class OutgoingGraph {
  public:
    OutgoingGraph(const packages::Graph& graph, const GraphNumbers& numbers)
        : graph_(graph), numbers_(numbers) {}

    // Lengths first: everything that a pointer may lead to can then be made before the first
    // pointer.
    template <class Archive>
    void save(Archive& archive) const {
        archive(make_size_tag(graph_.packages.size()), make_size_tag(graph_.maintainers.size()),
                make_size_tag(graph_.architectures.size()));
        for (const auto* maintainer : graph_.maintainers) {
            archive(maintainer->name, maintainer->email);
            save(archive, maintainer->packages);
        }
        for (const auto* architecture : graph_.architectures) archive(architecture->name);
        for (const auto& package : graph_.packages) {
            archive(package.name, make_size_tag(package.versions.size()));
            for (const auto& version : package.versions) save(archive, version);
            save(archive, package.provided_by);
            save(archive, package.required_by);
        }
    }

  private:
    template <class Archive>
    void save(Archive& archive, const packages::Version& version) const {
        archive(numbers_.of(version.maintainer), numbers_.of(version.architecture), version);
        archive(make_size_tag(version.dependencies.size()));
        for (const auto& each : version.dependencies)
            archive(numbers_.of(each.target), numbers_.of(each.architecture), each);
        archive(make_size_tag(version.provisions.size()));
        for (const auto& each : version.provisions)
            archive(numbers_.of(each.package), each.version);
        archive(make_size_tag(version.other_fields.size()));
        for (const auto& each : version.other_fields) archive(each);
    }

    template <class Archive>
    void save(Archive& archive, const packages::List<packages::Package*>& list) const {
        archive(make_size_tag(list.size()));
        for (const auto* package : list) archive(numbers_.of(package));
    }

    const packages::Graph& graph_;
    const GraphNumbers& numbers_;
};

class IncomingGraph {
  public:
    explicit IncomingGraph(std::pmr::memory_resource& memory) : maker_(memory) {}
    const packages::Graph& graph() const noexcept { return *graph_; }

    template <class Archive>
    void load(Archive& archive) {
        graph_ = maker_.graph();
        std::size_t packages = 0, maintainers = 0, architectures = 0;
        archive(make_size_tag(packages), make_size_tag(maintainers), make_size_tag(architectures));
        fill(graph_->packages, packages, [&] { return maker_.package({}); });
        fill(graph_->maintainers, maintainers, [&] { return load_maintainer(archive); });
        fill(graph_->architectures, architectures, [&] {
            auto* architecture = maker_.architecture({});
            archive(architecture->name);
            return architecture;
        });
        for (auto& package : graph_->packages) {
            archive(package.name);
            load_list(archive, package.versions, [&] { return load_version(archive); });
            load_packages(archive, package.provided_by);
            load_packages(archive, package.required_by);
        }
    }

  private:
    template <class List, class MakeNext>
    static void fill(List& list, std::size_t count, MakeNext make_next) {
        list.reserve(count);
        while (list.size() < count) list.push_back(make_next());
    }

    template <class Archive, class List, class MakeNext>
    static void load_list(Archive& archive, List& list, MakeNext make_next) {
        std::size_t count = 0;
        archive(make_size_tag(count));
        fill(list, count, make_next);
    }

    template <class Archive>
    packages::Maintainer* load_maintainer(Archive& archive) {
        auto* maintainer = maker_.maintainer({}, {});
        archive(maintainer->name, maintainer->email);
        load_packages(archive, maintainer->packages);
        return maintainer;
    }

    template <class Archive>
    packages::Version load_version(Archive& archive) {
        packages::Version version{
            .maintainer = load_pointer(archive, graph_->maintainers),
            .architecture = load_pointer(archive, graph_->architectures),
            .number = maker_.text(),
            .section = maker_.text(),
            .priority = maker_.text(),
            .status = maker_.text(),
            .source = maker_.text(),
            .homepage = maker_.text(),
            .summary = maker_.text(),
            .description = maker_.text(),
            .installed_kib = 0,
            .multi_arch = {},
            .essential = false,
            .dependencies = maker_.list<packages::Dependency>(),
            .provisions = maker_.list<packages::Provision>(),
            .other_fields = maker_.list<packages::Field>(),
        };
        archive(version);
        load_list(archive, version.dependencies, [&] {
            auto* target = load_pointer(archive, graph_->packages);
            auto* architecture = load_pointer(archive, graph_->architectures);
            packages::Dependency each{target, architecture, maker_.text(), {}, {}, false};
            archive(each);
            return each;
        });
        load_list(archive, version.provisions, [&] {
            packages::Provision each{load_pointer(archive, graph_->packages), maker_.text()};
            archive(each.version);
            return each;
        });
        load_list(archive, version.other_fields, [&] {
            packages::Field each{maker_.text(), maker_.text()};
            archive(each);
            return each;
        });
        return version;
    }

    template <class Archive>
    void load_packages(Archive& archive, packages::List<packages::Package*>& list) {
        load_list(archive, list, [&] { return load_pointer(archive, graph_->packages); });
    }

    template <class Archive, class List>
    static auto load_pointer(Archive& archive, List& objects) {
        std::uint32_t number = 0;
        archive(number);
        return pointer_of(number, objects);
    }

    packages::Maker maker_;
    packages::Graph* graph_ = nullptr;
};

class CerealPackages {
  public:
    CerealPackages(const Packages& workload, const packages::Graph&)
        : wire_(2 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const packages::Graph& sent, GraphMemory& memory) {
        numbers_.number(sent);
        IncomingGraph incoming(memory);
        wire_.transfer(OutgoingGraph(sent, numbers_), incoming);
        received_ = &incoming.graph();
    }
    const packages::Graph& received(GraphMemory&) { return *received_; }

  private:
    GraphNumbers numbers_;
    CerealWire wire_;
    const packages::Graph* received_ = nullptr;
};

}  // namespace

void add_cereal_packages() {
    for (const Packages& workload : kPackages)
        add_subject(workload.name, "cereal", [=] {
            return std::make_unique<PeerSubject<Packages, CerealPackages>>(workload);
        });
}

}  // namespace bench_graph
