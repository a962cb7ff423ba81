// Objects are made in the order in which a depth-first walk from the root would like to meet them
// as far as the input allows: a version after its package, then each requirement with its
// alternatives.
#include "packages/build_graph.hpp"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <boost/unordered/unordered_flat_map.hpp>

#include "packages/maker.hpp"

namespace packages {

namespace {

class Builder {
  public:
    Builder(const Database& database, std::pmr::memory_resource& memory)
        : database_(database), maker_(memory), graph_(maker_.graph()) {}

    void add_set(const std::string& suffix) {
        suffix_ = suffix;
        by_name_.clear();
        for (const Record& record : database_.records) add(record);
    }

    Graph* graph() const noexcept { return graph_; }

  private:
    void add(const Record& record) {
        Package* owner = package(record.name);
        if (record.version.empty()) return;
        Version* made = version(record, owner);
        owner->versions.push_back(made);
        for (const WrittenAlternative& provided : record.provides) provision(provided, made);
        for (const auto& [kind, clauses] : record.relations)
            for (const Clause& clause : clauses) requirement(kind, clause, made);
    }

    // The package of that name in the current set, made at its first mention.
    Package* package(std::string_view name) {
        const auto [entry, is_new] = by_name_.try_emplace(name, nullptr);
        if (!is_new) return entry->second;
        Package* made = maker_.package(maker_.text(std::string(name) + suffix_));
        entry->second = made;
        graph_->packages.push_back(made);
        return made;
    }

    Maintainer* maintainer(const Record& record) {
        if (record.maintainer_name.empty() && record.maintainer_email.empty()) return nullptr;
        const auto [entry, is_new] =
            maintainers_.try_emplace({record.maintainer_name, record.maintainer_email}, nullptr);
        if (!is_new) return entry->second;
        Maintainer* made = maker_.maintainer(record.maintainer_name, record.maintainer_email);
        entry->second = made;
        graph_->maintainers.push_back(made);
        return made;
    }

    Version* version(const Record& record, Package* owner) {
        std::size_t clause_count = 0;
        for (const auto& relation : record.relations) clause_count += relation.second.size();
        Maintainer* caretaker = maintainer(record);
        Version* made = maker_.make(Version{
            .package = owner,
            .maintainer = caretaker,
            .number = maker_.text(record.version),
            .architecture = maker_.text(record.architecture),
            .section = maker_.text(record.section),
            .priority = maker_.text(record.priority),
            .status = maker_.text(record.status),
            .summary = maker_.text(record.summary),
            .description = maker_.text(record.description),
            .installed_kib = record.installed_kib,
            .multi_arch = record.multi_arch,
            .essential = record.essential,
            .requirements = maker_.list<Requirement*>(clause_count),
            .provisions = maker_.list<Provision>(record.provides.size()),
            .other_fields = other_fields(record),
        });
        if (caretaker != nullptr) caretaker->versions.push_back(made);
        return made;
    }

    List<Field> other_fields(const Record& record) const {
        List<Field> fields = maker_.list<Field>(record.other_fields.size());
        for (const RawField& field : record.other_fields)
            fields.push_back({maker_.text(field.name), maker_.text(field.value)});
        return fields;
    }

    void provision(const WrittenAlternative& provided, Version* provider) {
        Package* target = package(provided.package);
        provider->provisions.push_back({target, maker_.text(provided.version)});
        target->provided_by.push_back(provider);
    }

    void requirement(Kind kind, const Clause& clause, Version* owner) {
        Requirement* made =
            maker_.make(Requirement{owner, kind, maker_.list<Alternative>(clause.size())});
        owner->requirements.push_back(made);
        for (const WrittenAlternative& written : clause) {
            Package* target = package(written.package);
            made->alternatives.push_back({target, written.relation, maker_.text(written.version),
                                          maker_.text(written.architecture)});
            target->required_by.push_back(made);
        }
    }

    const Database& database_;
    Maker maker_;
    Graph* graph_;
    std::string suffix_;
    boost::unordered_flat_map<std::string_view, Package*> by_name_;
    boost::unordered_flat_map<std::pair<std::string_view, std::string_view>, Maintainer*>
        maintainers_;
};

}  // namespace

Graph* build_graph(const Database& database, std::pmr::memory_resource& memory,
                   std::size_t at_least) {
    Builder builder(database, memory);
    builder.add_set("");
    for (std::size_t copy = 2, count = database.package_count; count < at_least;
         ++copy, count += database.package_count)
        builder.add_set(fmt::format("~{}", copy));
    return builder.graph();
}

}  // namespace packages
