// A recursive-descent parser without the recursion: the grammar is flat.
#include "packages/relations.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace packages {

namespace {

bool is_alphanumeric(char c) noexcept {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_name_character(char c) noexcept {
    return is_alphanumeric(c) || c == '+' || c == '-' || c == '.' || c == '_';
}

// deb-version(5): also epochs (':') and '~'.
bool is_version_character(char c) noexcept { return is_name_character(c) || c == ':' || c == '~'; }

class Parser {
  public:
    Parser(std::string_view text, Place place) : text_(text), place_(place) {}

    std::vector<Clause> parse() {
        std::vector<Clause> clauses;
        skip_blanks();
        if (at_ == text_.size()) return clauses;
        clauses.push_back(clause());
        while (accept(',')) clauses.push_back(clause());
        if (at_ != text_.size()) fail("unexpected text");
        return clauses;
    }

  private:
    Clause clause() {
        Clause alternatives{alternative()};
        while (accept('|')) alternatives.push_back(alternative());
        return alternatives;
    }

    WrittenAlternative alternative() {
        WrittenAlternative result;
        skip_blanks();
        result.package = take(is_name_character);
        if (!is_package_name(result.package)) fail("expected a package name");
        if (at_ < text_.size() && text_[at_] == ':') {
            ++at_;
            result.architecture = take(is_name_character);
            if (result.architecture.empty()) fail("expected an architecture after ':'");
        }
        if (accept('(')) constraint(result);
        skip_blanks();
        return result;
    }

    void constraint(WrittenAlternative& result) {
        skip_blanks();
        result.relation = relation();
        skip_blanks();
        result.version = take(is_version_character);
        if (result.version.empty()) fail("expected a version");
        if (!accept(')')) fail("expected ')'");
    }

    Relation relation() {
        const std::string_view sign = take([](char c) { return c == '<' || c == '=' || c == '>'; });
        // "<" and ">" are what old packages write for "<=" and ">=" (deb-control(5)).
        constexpr std::array<std::pair<std::string_view, Relation>, 7> kSigns{{
            {"<<", Relation::earlier},
            {"<=", Relation::earlier_equal},
            {"<", Relation::earlier_equal},
            {"=", Relation::equal},
            {">=", Relation::later_equal},
            {">", Relation::later_equal},
            {">>", Relation::later},
        }};
        for (const auto& [written, meaning] : kSigns)
            if (written == sign) return meaning;
        fail("expected <<, <=, =, >= or >>");
    }

    template <class Accepts>
    std::string_view take(Accepts accepts) noexcept {
        const std::size_t start = at_;
        while (at_ < text_.size() && accepts(text_[at_])) ++at_;
        return text_.substr(start, at_ - start);
    }

    bool accept(char c) noexcept {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    void skip_blanks() noexcept {
        at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    }

    [[noreturn]] void fail(std::string_view cause) const {
        const std::string_view rest = trim(text_.substr(at_)).substr(0, 24);
        throw input_error(place_, rest.empty() ? fmt::format("{} at the end of the field", cause)
                                               : fmt::format("{} before \"{}\"", cause, rest));
    }

    std::string_view text_;
    Place place_;
    std::size_t at_ = 0;
};

}  // namespace

bool is_package_name(std::string_view name) noexcept {
    return name.size() >= 2 && is_alphanumeric(name.front()) &&
           std::all_of(name.begin(), name.end(), is_name_character);
}

std::vector<Clause> parse_relations(std::string_view text, Place place) {
    return Parser(text, place).parse();
}

}  // namespace packages
