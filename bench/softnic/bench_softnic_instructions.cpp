// Does exactly n small operations and ends: two runs of different n under callgrind give the
// instructions of one. Usage: bench_softnic_instructions <case> <subject> <n>, or --list.
#include <cstdlib>
#include <iostream>

#include "small_operation.hpp"

int main(int argc, char** argv) try {
    using namespace verbatim::bench;
    const bool lists = argc == 2 && std::string_view(argv[1]) == "--list";
    for (const NamedOperation& one : kSmallOperations) {
        if (lists && one.counted) std::cout << one.name << ' ' << one.subject << '\n';
        if (argc != 4 || argv[1] != one.name || argv[2] != one.subject) continue;
        const auto operation = one.make();
        for (std::uint64_t left = std::strtoull(argv[3], nullptr, 10) / SmallOperation::kBatch;
             left != 0; --left)
            operation->run_batch();
        return 0;
    }
    if (lists) return 0;
    std::cerr << "usage: bench_softnic_instructions <case> <subject> <n>, or --list\n";
    return 2;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
