// A vector of structs with names, some of which are too long to lie in their strings.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include <verbatim/objects/describe/composed_marking.hpp>

#include "workload.hpp"

namespace bench_graph {

struct Record {
    std::uint64_t id = 0;
    double weight = 0;
    std::pmr::string name;
};
struct RecordList {
    std::pmr::vector<Record> records;
};

struct Records : Workload {
    using Root = RecordList;
    std::size_t count = 100'000;

    std::uint64_t objects() const { return count; }
    std::size_t bytes() const { return count * (sizeof(Record) + 32) + 4096; }
    RecordList* make(auto& memory) const {
        auto* const resource = resource_of(memory);
        auto* list = make_in(memory, RecordList{std::pmr::vector<Record>(resource)});
        list->records.reserve(count);
        for (std::size_t n = 0; n < count; ++n)
            list->records.push_back(
                {n, 1.0 / static_cast<double>(n + 1), std::pmr::string(text_of(n), resource)});
        return list;
    }

  private:
    static std::string text_of(std::size_t n) {
        return n % 2 == 0 ? fmt::format("no {}", n) : fmt::format("the long name of {:010}", n);
    }
};

inline std::uint64_t sum_of(const RecordList& list) {
    std::uint64_t sum = list.records.size();
    for (const Record& record : list.records) {
        const std::uint64_t parts[] = {record.id, std::bit_cast<std::uint64_t>(record.weight),
                                       XXH3_64bits(record.name.data(), record.name.size())};
        sum = sum * 31 + XXH3_64bits(parts, sizeof parts);
    }
    return sum;
}

}  // namespace bench_graph

VERBATIM_COMPOSED(bench_graph::RecordList);
