// Posts exactly n times and ends: two runs of different n under callgrind give the instructions of
// one post. Usage: bench_post_instructions <case> <subject> <n>, or --list.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "subjects.hpp"

int main(int argc, char** argv) {
    using namespace verbatim::bench;
    if (argc == 2 && std::string_view(argv[1]) == "--list") {
        for (const NamedSubject& subject : subjects())
            std::cout << kWriteInline8 << ' ' << subject.name << '\n';
        return 0;
    }
    if (argc == 4 && argv[1] == kWriteInline8) {
        const std::uint64_t count = std::strtoull(argv[3], nullptr, 10);
        for (const NamedSubject& subject : subjects()) {
            if (subject.name != argv[2]) continue;
            subject.make()->run(count);
            return 0;
        }
    }
    std::cerr << "usage: bench_post_instructions " << kWriteInline8
              << " <subject> <n>, or --list\n";
    return 2;
}
