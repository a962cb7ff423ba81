#include "synthetic_status.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <random>

namespace bench_graph {

namespace {

constexpr unsigned kPackageCount = 820;
constexpr unsigned kNameCount = 2000;  // also such that nobody provides

class Writer {
  public:
    std::string write() {
        for (unsigned number = 0; number < kPackageCount; ++number) stanza(number);
        return std::move(text_);
    }

  private:
    void stanza(unsigned number) {
        add("Package: {}\nStatus: install ok installed\nPriority: optional\nSection: libs\n",
            name(number));
        add("Installed-Size: {}\nMaintainer: Team {} <team{}@lists.example.org>\n", below(100'000),
            number % 190, number % 190);
        add("Architecture: amd64\nMulti-Arch: {}\nSource: source-{}\nVersion: {}\n",
            number % 3 == 0 ? "foreign" : "same", number / 2, version());
        if (number % 6 == 0) add("Provides: {} (= {})\n", name(kPackageCount + number), version());
        add("Depends: {}\n", relations(1 + below(6), true));
        if (number % 4 == 0) add("Breaks: {}\n", relations(1 + below(4), false));
        if (number % 5 == 0) add("Suggests: {}\n", relations(1 + below(3), true));
        add("Homepage: https://www.example.org/project/{}\nDescription: {}\n", number, words(6));
        for (unsigned line = 0; line < 6; ++line) add(" {}\n", words(9));
        text_ += '\n';
    }

    std::string relations(unsigned count, bool choices) {
        std::string result;
        for (unsigned i = 0; i < count; ++i) {
            result += fmt::format("{}{}", i == 0 ? "" : ", ", target());
            if (below(2) == 0) result += fmt::format(" (>= {})", version());
            if (choices && below(8) == 0) result += fmt::format(" | {}", target());
        }
        return result;
    }

    std::string words(unsigned count) {
        std::string result = "text";
        for (unsigned i = 1; i < count; ++i) result += fmt::format(" word{}", below(5000));
        return result;
    }

    // Low numbers are popular, as libc is.
    std::string target() { return name(below(1 + below(kNameCount))); }
    std::string version() {
        return fmt::format("{}.{}.{}-{}", below(10), below(40), below(20), 1 + below(5));
    }
    static std::string name(unsigned number) { return fmt::format("lib-package-{}", number); }
    unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    }

    std::string text_;
    std::mt19937_64 random_{2026};
};

}  // namespace

std::string synthetic_status() { return Writer().write(); }

const packages::Database& package_database() {
    static const packages::Database database = [] {
        const char* status = "/var/lib/dpkg/status";
        return std::filesystem::exists(status)
                   ? packages::load_database(status)
                   : packages::parse_database(synthetic_status(), "synthetic database");
    }();
    return database;
}

}  // namespace bench_graph
