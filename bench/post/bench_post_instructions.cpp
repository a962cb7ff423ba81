// Posts exactly n times and ends: two runs of different n under callgrind give the instructions of
// one post. Usage: bench_post_instructions <case> <subject> <n>, or --list.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "subjects.hpp"

int main(int argc, char** argv) {
    using namespace verbatim::bench;
    const bool lists = argc == 2 && std::string_view(argv[1]) == "--list";
    for (const NamedSubject& subject : subjects()) {
        if (lists) std::cout << subject.of->name << ' ' << subject.name << '\n';
        if (argc != 4 || subject.of->name != argv[1] || subject.name != argv[2]) continue;
        subject.make(*subject.of)->run(std::strtoull(argv[3], nullptr, 10));
        return 0;
    }
    if (lists) return 0;
    std::cerr << "usage: bench_post_instructions <case> <subject> <n>, or --list\n";
    return 2;
}
