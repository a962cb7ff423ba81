#include "packages/plan.hpp"

#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

namespace packages {

namespace {

// Numbers things in order of first mention.
template <class Key>
class Numbering {
  public:
    // The number, and whether it is new.
    std::pair<Number, bool> of(const Key& key) {
        const auto [entry, is_new] =
            numbers_.try_emplace(key, static_cast<Number>(numbers_.size()));
        return {entry->second, is_new};
    }

  private:
    boost::unordered_flat_map<Key, Number> numbers_;
};

class Planner {
  public:
    Plan make(const Database& database) {
        for (const Record& record : database.records) add(record);
        return std::move(plan_);
    }

  private:
    void add(const Record& record) {
        const Number owner = name(record.name);
        if (record.version.empty()) return;
        Plan::Entry entry{
            &record, maintainer(record, owner), architecture(record.architecture), {}, {}};
        for (const auto& [kind, clauses] : record.relations)
            for (const Clause& clause : clauses) add_links(kind, clause, owner, entry.links);
        for (const WrittenAlternative& provided : record.provides) {
            const Number target = name(provided.package);
            entry.provided.push_back(target);
            plan_.names[target].provided_by.push_back(owner);
        }
        plan_.names[owner].entries.push_back(std::move(entry));
    }

    void add_links(Kind kind, const Clause& clause, Number owner, std::vector<Plan::Link>& links) {
        for (const WrittenAlternative& written : clause) {
            const Number target = name(written.package);
            links.push_back({target, architecture(written.architecture), written.version, kind,
                             written.relation, &written != &clause.back()});
            plan_.names[target].required_by.push_back(owner);
        }
    }

    Number name(std::string_view text) {
        const auto [number, is_new] = names_.of(text);
        if (is_new) plan_.names.push_back({text, {}, {}, {}});
        return number;
    }

    Number architecture(std::string_view text) {
        if (text.empty()) return Plan::kNone;
        const auto [number, is_new] = architectures_.of(text);
        if (is_new) plan_.architectures.push_back(text);
        return number;
    }

    Number maintainer(const Record& record, Number owner) {
        if (record.maintainer_name.empty() && record.maintainer_email.empty()) return Plan::kNone;
        const auto [number, is_new] =
            maintainers_.of({record.maintainer_name, record.maintainer_email});
        if (is_new)
            plan_.maintainers.push_back({record.maintainer_name, record.maintainer_email, {}});
        plan_.maintainers[number].names.push_back(owner);
        return number;
    }

    Plan plan_;
    Numbering<std::string_view> names_;
    Numbering<std::string_view> architectures_;
    Numbering<std::pair<std::string_view, std::string_view>> maintainers_;
};

}  // namespace

Plan make_plan(const Database& database) { return Planner().make(database); }

}  // namespace packages
