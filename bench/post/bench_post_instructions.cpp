// Posts exactly n times and ends: two runs of different n under callgrind give the instructions of
// one post. Usage: bench_post_instructions <case> <subject> <n>, or --list, or --count <case>
// <subject> <n>, which counts by itself and prints the number: for builds that valgrind cannot run.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "machine.hpp"
#include "stepped.hpp"
#include "subjects.hpp"

namespace {

using namespace verbatim::bench;

int run(const NamedSubject& subject, std::uint64_t operations, bool counts) {
    const auto posts = subject.make(*subject.of);
    posts->prepare();
    if (!counts) {
        posts->run(operations);
        return 0;
    }
    posts->run(kBatch * 10);  // binds symbols
    posts->prepare();
    std::cout << Stepped::count([&] { posts->run(operations); }) << '\n';
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const bool lists = argc == 2 && std::string_view(argv[1]) == "--list";
    const bool counts = argc == 5 && std::string_view(argv[1]) == "--count";
    char** const asked = argv + (counts ? 2 : 1);
    if (!runs_here()) return lists ? 0 : 3;
    for (const NamedSubject& subject : subjects()) {
        const std::string name = case_name(*subject.of);
        if (lists)
            std::cout << name << ' ' << subject.name << (kValgrindRuns ? "" : " --count") << '\n';
        if ((argc != 4 && !counts) || name != asked[0] || subject.name != asked[1]) continue;
        return run(subject, std::strtoull(asked[2], nullptr, 10), counts);
    }
    if (lists) return 0;
    std::cerr << "usage: bench_post_instructions [--count] <case> <subject> <n>, or --list\n";
    return 2;
}
