// cereal: the graph as nested values and numbers, read straight into linked objects.
//
// cereal has an answer of its own to sharing and cycles: std::shared_ptr fields, tracked by the
// archive. It recurses once per link and would overflow the stack on this graph, and it would
// demand other objects than the ones to be sent; numbers are what a user of cereal is left with
// here.
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include "cereal_wire.hpp"
#include "graph_numbers.hpp"
#include "packages/maker.hpp"
#include "packages_subject.hpp"

namespace packages {

template <class Archive>
void serialize(Archive& archive, Field& field) {
    archive(field.name, field.value);
}

// What of a version is a value.
template <class Archive>
void serialize(Archive& archive, Version& v) {
    archive(v.number, v.architecture, v.section, v.priority, v.status, v.summary, v.description,
            v.installed_kib, v.multi_arch, v.essential);
}

}  // namespace packages

namespace bench_graph {
namespace {

using cereal::make_size_tag;

class Outgoing {
  public:
    Outgoing(const packages::Graph& graph, const GraphNumbers& numbers)
        : graph_(graph), numbers_(numbers) {}

    template <class Archive>
    void save(Archive& archive) const {
        archive(make_size_tag(graph_.packages.size()));
        for (const auto* package : graph_.packages) archive(package->name);
        archive(make_size_tag(graph_.maintainers.size()));
        for (const auto* maintainer : graph_.maintainers)
            archive(maintainer->name, maintainer->email);
        for (const auto* package : graph_.packages) {
            archive(make_size_tag(package->versions.size()));
            for (const auto* version : package->versions) save(archive, *version);
        }
        for (const auto* package : graph_.packages) {
            save_numbers(archive, package->provided_by);
            save_numbers(archive, package->required_by);
        }
        for (const auto* maintainer : graph_.maintainers)
            save_numbers(archive, maintainer->versions);
    }

  private:
    template <class Archive>
    void save(Archive& archive, const packages::Version& version) const {
        const packages::Maintainer* caretaker = version.maintainer;
        archive(caretaker == nullptr ? 0u : numbers_.of(caretaker) + 1, version);
        archive(make_size_tag(version.requirements.size()));
        for (const auto* requirement : version.requirements) {
            archive(requirement->kind, make_size_tag(requirement->alternatives.size()));
            for (const auto& each : requirement->alternatives)
                archive(numbers_.of(each.target), each.relation, each.version, each.architecture);
        }
        archive(make_size_tag(version.provisions.size()));
        for (const auto& provision : version.provisions)
            archive(numbers_.of(provision.package), provision.version);
        archive(make_size_tag(version.other_fields.size()));
        for (const auto& field : version.other_fields) archive(field);
    }

    template <class Archive, class T>
    void save_numbers(Archive& archive, const packages::List<T*>& pointers) const {
        archive(make_size_tag(pointers.size()));
        for (const T* pointer : pointers) archive(numbers_.of(pointer));
    }

    const packages::Graph& graph_;
    const GraphNumbers& numbers_;
};

class Incoming {
  public:
    explicit Incoming(std::pmr::memory_resource& memory) : maker_(memory) {}
    const packages::Graph& graph() const noexcept { return *graph_; }

    template <class Archive>
    void load(Archive& archive) {
        tables_.clear();
        graph_ = maker_.graph();
        load_names(archive);
        for (auto* package : graph_->packages)
            fill(archive, package->versions, [&] { return load_version(archive, package); });
        for (auto* package : graph_->packages) {
            load_numbers(archive, tables_.versions, package->provided_by);
            load_numbers(archive, tables_.requirements, package->required_by);
        }
        for (auto* maintainer : graph_->maintainers)
            load_numbers(archive, tables_.versions, maintainer->versions);
    }

  private:
    template <class Archive, class List, class MakeNext>
    void fill(Archive& archive, List& list, MakeNext make_next) {
        std::size_t count = 0;
        archive(make_size_tag(count));
        list.reserve(count);
        while (list.size() < count) list.push_back(make_next());
    }

    template <class Archive>
    void load_names(Archive& archive) {
        fill(archive, graph_->packages, [&] { return maker_.package(load_text(archive)); });
        fill(archive, graph_->maintainers, [&] {
            auto* maintainer = maker_.maintainer({}, {});
            archive(maintainer->name, maintainer->email);
            return maintainer;
        });
    }

    template <class Archive>
    packages::Version* load_version(Archive& archive, packages::Package* package) {
        const std::uint32_t caretaker = load_number(archive);
        packages::Version* version = maker_.make(packages::Version{
            .package = package,
            .maintainer = caretaker == 0 ? nullptr : graph_->maintainers[caretaker - 1],
            .number = maker_.text(),
            .architecture = maker_.text(),
            .section = maker_.text(),
            .priority = maker_.text(),
            .status = maker_.text(),
            .summary = maker_.text(),
            .description = maker_.text(),
            .installed_kib = 0,
            .multi_arch = {},
            .essential = false,
            .requirements = maker_.list<packages::Requirement*>(),
            .provisions = maker_.list<packages::Provision>(),
            .other_fields = maker_.list<packages::Field>(),
        });
        archive(*version);
        tables_.versions.push_back(version);
        fill(archive, version->requirements, [&] { return load_requirement(archive, version); });
        fill(archive, version->provisions, [&] {
            packages::Package* target = graph_->packages[load_number(archive)];
            return packages::Provision{target, load_text(archive)};
        });
        fill(archive, version->other_fields, [&] {
            packages::Field field{maker_.text(), maker_.text()};
            archive(field);
            return field;
        });
        return version;
    }

    template <class Archive>
    packages::Requirement* load_requirement(Archive& archive, packages::Version* owner) {
        auto* requirement =
            maker_.make(packages::Requirement{owner, {}, maker_.list<packages::Alternative>()});
        archive(requirement->kind);
        fill(archive, requirement->alternatives, [&] {
            packages::Package* target = graph_->packages[load_number(archive)];
            packages::Alternative alternative{target, {}, maker_.text(), maker_.text()};
            archive(alternative.relation, alternative.version, alternative.architecture);
            return alternative;
        });
        tables_.requirements.push_back(requirement);
        return requirement;
    }

    template <class Archive, class T>
    void load_numbers(Archive& archive, const std::vector<T*>& table, packages::List<T*>& list) {
        fill(archive, list, [&] { return table[load_number(archive)]; });
    }

    template <class Archive>
    static std::uint32_t load_number(Archive& archive) {
        std::uint32_t number = 0;
        archive(number);
        return number;
    }

    template <class Archive>
    packages::Text load_text(Archive& archive) const {
        packages::Text text = maker_.text();
        archive(text);
        return text;
    }

    packages::Maker maker_;
    packages::Graph* graph_ = nullptr;
    GraphTables tables_;
};

class PackagesCereal final : public PackagesSubject {
  public:
    std::uint64_t bytes() const override { return wire_.bytes(); }
    void transfer() override {
        numbers_.number(sent());
        memory_.reset();
        wire_.transfer(Outgoing(sent(), numbers_), incoming_);
    }
    bool verify() override { return equals_sent(incoming_.graph()); }

  private:
    GraphNumbers numbers_;
    CerealWire wire_{2 * package_graph_bytes()};
    WarmMemory memory_{2 * package_graph_bytes()};
    Incoming incoming_{memory_};
};

}  // namespace

void add_packages_cereal() {
    add_subject(kPackagesCase, "cereal", [] { return std::make_unique<PackagesCereal>(); });
}

}  // namespace bench_graph
