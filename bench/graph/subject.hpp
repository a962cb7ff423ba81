// What is measured here: a way of getting an object graph from one side to the other, both sides
// driven by one thread, so that the CPU time of the process is the sum of both, engine and kernel
// work included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace bench_graph {

class Subject {
  public:
    virtual ~Subject() = default;
    // Gives back what the last transfer left on the receiving side, then moves the graph once. So a
    // transfer pays for memory it releases, whatever the subject's way of doing so is.
    virtual void transfer() = 0;
    // Whether the receiving side holds exactly what the sending side has. Not timed.
    virtual bool verify() = 0;
    // Objects of the graph, the same for all subjects of a case.
    virtual std::uint64_t objects() const = 0;
    // Bytes that cross from side to side in one transfer.
    virtual std::uint64_t bytes() const = 0;
};

using MakeSubject = std::function<std::unique_ptr<Subject>()>;

// Adds the benchmark "graph/<case>/<subject>"; the subject is made when the benchmark runs, and
// lives until another one does.
void add_subject(const std::string& case_name, const std::string& subject_name, MakeSubject make);

// One function per source file.
void add_lists();
void add_meshes();
void add_points_floors();
void add_points_protobuf();
void add_points_cereal();
void add_points_verbatim();
void add_packages_floors();
void add_packages_protobuf();
void add_packages_cereal();
void add_packages_verbatim();

}  // namespace bench_graph
