// A subject is a way of getting an object graph from one side to the other. Its cost is the
// processor time of both sides, engine and kernel work included.
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
    // Bytes that cross from side to side in one transfer; 0: not counted.
    virtual std::uint64_t bytes() const = 0;
    // Processor time so far of a side in another process.
    virtual double other_process_ns() const { return 0; }
    // Processor time so far of the receiving side, wherever it is.
    virtual double receiver_ns() const { return other_process_ns(); }
    // Blocks of memory that a traversal lists for sending; 0: it makes no list.
    virtual std::uint64_t list_length() const { return 0; }
};

using MakeSubject = std::function<std::unique_ptr<Subject>()>;

// What a benchmark reports. warm: processor time for an object, of transfers one behind the other.
// cold: the same of the first transfer of a subject, made anew each time. one_way: elapsed time for
// half of transfer(), which then goes there and back. elapsed: elapsed time of transfer(). sides:
// as warm, but for each side by itself, and bytes for an object.
enum class Measure { warm, cold, one_way, elapsed, sides };

// Adds the benchmark "graph/<case>/<subject>"; the subject is made when the benchmark runs, and
// lives until another one does.
void add_subject(const std::string& case_name, const std::string& subject_name, MakeSubject make,
                 Measure measure = Measure::warm);

// One function per source file.
void add_graph_transfers();
void add_composed_transfers();
void add_local_messages();
void add_composed_floors();
void add_map_transfers();
void add_streams();
void add_traversals();
void add_polymorphic_transfers();
void add_latencies();
void add_lives();
void add_send_rates();
void add_general_floors();
void add_special_floors();
void add_mesh_floors();
void add_package_floors();
void add_map_floors();
void add_protobuf();
void add_protobuf_packages();
void add_cereal();
void add_cereal_packages();
void add_flatbuffers();
void add_flatbuffers_packages();
void add_capnproto();
void add_capnproto_packages();

}  // namespace bench_graph
