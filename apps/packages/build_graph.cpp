// Objects are made in the order in which a depth-first walk from the root meets them, each list
// with its final length: neighbours in the walk are then neighbours in memory, and no abandoned
// pieces lie between them. That is how a program that cares for its caches would build it, and what
// lets a graph leave in few pieces.
#include "packages/build_graph.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "packages/maker.hpp"
#include "packages/plan.hpp"

namespace packages {

namespace {

class Builder {
  public:
    Builder(const Plan& plan, std::pmr::memory_resource& memory, std::size_t copies)
        : plan_(plan), maker_(memory), copies_(copies), graph_(maker_.graph()) {}

    Graph* build() {
        graph_->packages.reserve(plan_.names.size() * copies_);
        maintainers_.assign(plan_.maintainers.size(), nullptr);
        architectures_.assign(plan_.architectures.size(), nullptr);
        for (std::size_t copy = 0; copy < copies_; ++copy) add_copy(copy);
        fill(graph_->maintainers, maintainers_);
        fill(graph_->architectures, architectures_);
        return graph_;
    }

  private:
    // Elements have their addresses before they exist: the list does not grow.
    Package* package(Number name) const noexcept { return first_ + name; }

    void add_copy(std::size_t copy) {
        first_ = graph_->packages.data() + copy * plan_.names.size();
        const std::string suffix = copy == 0 ? "" : fmt::format("~{}", copy + 1);
        std::string text;
        for (const Plan::Name& name : plan_.names) {
            text.assign(name.text).append(suffix);
            add(name, graph_->packages.emplace_back(maker_.package(text)));
        }
    }

    void add(const Plan::Name& name, Package& package) {
        package.versions.reserve(name.entries.size());
        for (const Plan::Entry& entry : name.entries)
            add(entry, package.versions.emplace_back(version(entry)));
        link(package.provided_by, name.provided_by);
        link(package.required_by, name.required_by);
    }

    Version version(const Plan::Entry& entry) {
        const Record& record = *entry.record;
        return {.maintainer = maintainer(entry.maintainer),
                .architecture = architecture(entry.architecture),
                .number = maker_.text(record.version),
                .section = maker_.text(record.section),
                .priority = maker_.text(record.priority),
                .status = maker_.text(record.status),
                .source = maker_.text(record.source),
                .homepage = maker_.text(record.homepage),
                .summary = maker_.text(record.summary),
                .description = maker_.text(record.description),
                .installed_kib = record.installed_kib,
                .multi_arch = record.multi_arch,
                .essential = record.essential,
                .dependencies = maker_.list<Dependency>(entry.links.size()),
                .provisions = maker_.list<Provision>(),
                .other_fields = maker_.list<Field>()};
    }

    void add(const Plan::Entry& entry, Version& version) {
        for (const Plan::Link& link : entry.links)
            version.dependencies.push_back({package(link.target), architecture(link.architecture),
                                            maker_.text(link.version), link.kind, link.relation,
                                            link.or_next});
        version.provisions.reserve(entry.provided.size());
        for (std::size_t i = 0; i < entry.provided.size(); ++i)
            version.provisions.push_back(
                {package(entry.provided[i]), maker_.text(entry.record->provides[i].version)});
        version.other_fields.reserve(entry.record->other_fields.size());
        for (const RawField& field : entry.record->other_fields)
            version.other_fields.push_back({maker_.text(field.name), maker_.text(field.value)});
    }

    void link(List<Package*>& list, const std::vector<Number>& names) const {
        list.reserve(names.size());
        for (const Number name : names) list.push_back(package(name));
    }

    // Shared by all copies, made where the walk first meets it.
    Maintainer* maintainer(Number number) {
        if (number == Plan::kNone) return nullptr;
        Maintainer*& made = maintainers_[number];
        if (made != nullptr) return made;
        const Plan::Maintainer& plan = plan_.maintainers[number];
        made = maker_.maintainer(plan.name, plan.email);
        made->packages.reserve(plan.names.size() * copies_);
        for (std::size_t copy = 0; copy < copies_; ++copy)
            for (const Number name : plan.names)
                made->packages.push_back(graph_->packages.data() + copy * plan_.names.size() +
                                         name);
        return made;
    }

    Architecture* architecture(Number number) {
        if (number == Plan::kNone) return nullptr;
        Architecture*& made = architectures_[number];
        if (made == nullptr) made = maker_.architecture(plan_.architectures[number]);
        return made;
    }

    template <class T>
    static void fill(List<T*>& list, const std::vector<T*>& objects) {
        list.assign(objects.begin(), objects.end());
    }

    const Plan& plan_;
    Maker maker_;
    std::size_t copies_;
    Graph* graph_;
    Package* first_ = nullptr;  // of the current copy
    std::vector<Maintainer*> maintainers_;
    std::vector<Architecture*> architectures_;
};

}  // namespace

Graph* build_graph(const Database& database, std::pmr::memory_resource& memory,
                   std::size_t at_least) {
    const Plan plan = make_plan(database);
    const std::size_t whole_copies =
        (at_least + database.package_count - 1) / database.package_count;
    return Builder(plan, memory, std::max<std::size_t>(1, whole_copies)).build();
}

}  // namespace packages
