// The meaning of the fields: stanzas to records.
#include "packages/database.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

#include <fmt/format.h>

namespace packages {

namespace {

constexpr std::array<std::pair<std::string_view, Kind>, 8> kRelationFields{{
    {"Depends", Kind::depends},
    {"Pre-Depends", Kind::pre_depends},
    {"Recommends", Kind::recommends},
    {"Suggests", Kind::suggests},
    {"Enhances", Kind::enhances},
    {"Breaks", Kind::breaks},
    {"Conflicts", Kind::conflicts},
    {"Replaces", Kind::replaces},
}};

// Fields that are copied as they are.
constexpr std::array<std::pair<std::string_view, std::string_view Record::*>, 8> kTextFields{{
    {"Package", &Record::name},
    {"Version", &Record::version},
    {"Architecture", &Record::architecture},
    {"Section", &Record::section},
    {"Priority", &Record::priority},
    {"Status", &Record::status},
    {"Source", &Record::source},
    {"Homepage", &Record::homepage},
}};

// Turns the fields of one stanza into one record.
class RecordReader {
  public:
    explicit RecordReader(std::string_view file) : file_(file) {}

    Record read(const Stanza& stanza) {
        record_ = {};
        for (const RawField& field : stanza.fields) {
            place_ = {file_, field.line};
            if (!text(field) && !typed(field) && !relation(field))
                record_.other_fields.push_back(field);
        }
        check({file_, stanza.line});
        return std::move(record_);
    }

  private:
    bool text(const RawField& field) {
        for (const auto& [name, member] : kTextFields) {
            if (!equal_ignoring_case(field.name, name)) continue;
            record_.*member = field.value;
            return true;
        }
        return false;
    }

    bool typed(const RawField& field) {
        if (equal_ignoring_case(field.name, "Maintainer")) {
            maintainer(field.value);
        } else if (equal_ignoring_case(field.name, "Description")) {
            description(field.value);
        } else if (equal_ignoring_case(field.name, "Installed-Size")) {
            record_.installed_kib = number(field.value);
        } else if (equal_ignoring_case(field.name, "Multi-Arch")) {
            record_.multi_arch = multi_arch(field.value);
        } else if (equal_ignoring_case(field.name, "Essential")) {
            record_.essential = yes_or_no(field.value);
        } else if (equal_ignoring_case(field.name, "Provides")) {
            provides(field.value);
        } else {
            return false;
        }
        return true;
    }

    bool relation(const RawField& field) {
        for (const auto& [name, kind] : kRelationFields) {
            if (!equal_ignoring_case(field.name, name)) continue;
            std::vector<Clause> clauses = parse_relations(field.value, place_);
            const bool choice =
                kind <= Kind::enhances;  // policy 7.1: the negative ones take no "|"
            if (!choice) refuse_choices(clauses);
            record_.relations.emplace_back(kind, std::move(clauses));
            return true;
        }
        return false;
    }

    void provides(std::string_view value) {
        const std::vector<Clause> clauses = parse_relations(value, place_);
        refuse_choices(clauses);
        for (const Clause& clause : clauses) {
            if (clause.front().relation != Relation::any &&
                clause.front().relation != Relation::equal)
                throw input_error(place_, "only \"=\" may be used in a Provides field");
            record_.provides.push_back(clause.front());
        }
    }

    void refuse_choices(const std::vector<Clause>& clauses) const {
        if (std::any_of(clauses.begin(), clauses.end(),
                        [](const Clause& c) { return c.size() > 1; }))
            throw input_error(place_, "this field takes no alternatives (\"|\")");
    }

    // "Name <address>", or only a name.
    void maintainer(std::string_view value) {
        const std::size_t open = value.rfind('<');
        const bool address = open != std::string_view::npos && value.back() == '>';
        record_.maintainer_name = trim(value.substr(0, address ? open : value.size()));
        if (address) record_.maintainer_email = value.substr(open + 1, value.size() - open - 2);
    }

    void description(std::string_view value) {
        const std::size_t end = std::min(value.find('\n'), value.size());
        record_.summary = trim(value.substr(0, end));
        record_.description = value.substr(std::min(end + 1, value.size()));
    }

    std::uint64_t number(std::string_view value) const {
        std::uint64_t result = 0;
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), result);
        if (error != std::errc{} || end != value.data() + value.size())
            throw input_error(place_, fmt::format("\"{}\" is not a number of KiB", value));
        return result;
    }

    MultiArch multi_arch(std::string_view value) const {
        if (value == "no") return MultiArch::no;
        if (value == "same") return MultiArch::same;
        if (value == "foreign") return MultiArch::foreign;
        if (value == "allowed") return MultiArch::allowed;
        throw input_error(place_,
                          fmt::format("\"{}\" is none of: no, same, foreign, allowed", value));
    }

    bool yes_or_no(std::string_view value) const {
        if (value == "yes") return true;
        if (value == "no") return false;
        throw input_error(place_, fmt::format("\"{}\" is neither yes nor no", value));
    }

    // dpkg keeps stanzas without a version only for packages that are not installed.
    void check(Place stanza) const {
        if (record_.name.empty()) throw input_error(stanza, "the stanza has no Package field");
        if (!is_package_name(record_.name))
            throw input_error(stanza, fmt::format("\"{}\" is not a package name", record_.name));
        const std::string_view status = record_.status;
        const std::size_t word = status.find_last_of(' ') + 1;  // 0 if there is no blank
        const bool may_lack = !status.empty() && status.substr(word) != "installed";
        if (record_.version.empty() && !may_lack)
            throw input_error(stanza, fmt::format("package {} has no Version field", record_.name));
    }

    std::string_view file_;
    Place place_{};
    Record record_;
};

std::size_t count_packages(const std::vector<Record>& records) {
    std::unordered_set<std::string_view> names;
    for (const Record& record : records)
        if (!record.version.empty()) names.insert(record.name);
    return names.size();
}

}  // namespace

Database parse_database(std::string text, std::string_view name) {
    Database database;
    database.text = std::make_unique<const std::string>(std::move(text));
    RecordReader reader(name);
    for (const Stanza& stanza : parse_control_file(*database.text, name))
        database.records.push_back(reader.read(stanza));
    database.package_count = count_packages(database.records);
    if (database.package_count == 0)
        throw verbatim::Error(verbatim::Errc::invalid_argument, std::string(name),
                              "holds no packages",
                              "name a package database, e.g. /var/lib/dpkg/status");
    return database;
}

Database load_database(const std::string& path) { return parse_database(read_file(path), path); }

}  // namespace packages
