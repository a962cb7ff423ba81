// protobuf: a message that is already built is serialized, copied and parsed; the receiver gets a
// message. protobuf_arena: the same with warm buffers and arenas. protobuf_objects: the same job as
// ours, in that fast form: from pointers to a message and back to pointers.
#include <string>

#include <messages.pb.h>
#include "../workloads/packages.hpp"
#include "graph_numbers.hpp"
#include "packages/maker.hpp"
#include "peer_subject.hpp"
#include "protobuf_wire.hpp"

namespace bench_graph {
namespace {

// Pointers to message.
class MessageWriter {
  public:
    void write(const packages::Graph& graph, proto::Graph& message) {
        numbers_.number(graph);
        message.mutable_packages()->Reserve(static_cast<int>(graph.packages.size()));
        for (const auto& package : graph.packages) write(package, *message.add_packages());
        for (const auto* maintainer : graph.maintainers) {
            proto::Maintainer& added = *message.add_maintainers();
            set(*added.mutable_name(), maintainer->name);
            set(*added.mutable_email(), maintainer->email);
            write(maintainer->packages, *added.mutable_packages());
        }
        for (const auto* architecture : graph.architectures)
            set(*message.add_architectures()->mutable_name(), architecture->name);
    }

  private:
    static void set(std::string& to, const packages::Text& from) {
        to.assign(from.data(), from.size());
    }

    void write(const packages::List<packages::Package*>& list,
               google::protobuf::RepeatedField<std::uint32_t>& numbers) const {
        numbers.Reserve(static_cast<int>(list.size()));
        for (const auto* package : list) numbers.Add(numbers_.of(package));
    }

    void write(const packages::Package& package, proto::Package& message) {
        set(*message.mutable_name(), package.name);
        for (const auto& version : package.versions) write(version, *message.add_versions());
        write(package.provided_by, *message.mutable_provided_by());
        write(package.required_by, *message.mutable_required_by());
    }

    void write(const packages::Version& version, proto::Version& message) {
        message.set_maintainer(numbers_.of(version.maintainer));
        message.set_architecture(numbers_.of(version.architecture));
        set(*message.mutable_number(), version.number);
        set(*message.mutable_section(), version.section);
        set(*message.mutable_priority(), version.priority);
        set(*message.mutable_status(), version.status);
        set(*message.mutable_source(), version.source);
        set(*message.mutable_homepage(), version.homepage);
        set(*message.mutable_summary(), version.summary);
        set(*message.mutable_description(), version.description);
        message.set_installed_kib(version.installed_kib);
        message.set_multi_arch(static_cast<std::uint32_t>(version.multi_arch));
        message.set_essential(version.essential);
        for (const auto& dependency : version.dependencies)
            write(dependency, *message.add_dependencies());
        for (const auto& provision : version.provisions) {
            proto::Provision& added = *message.add_provisions();
            added.set_package(numbers_.of(provision.package));
            set(*added.mutable_version(), provision.version);
        }
        for (const auto& field : version.other_fields) {
            proto::Field& added = *message.add_other_fields();
            set(*added.mutable_name(), field.name);
            set(*added.mutable_value(), field.value);
        }
    }

    void write(const packages::Dependency& dependency, proto::Dependency& message) {
        message.set_target(numbers_.of(dependency.target));
        message.set_architecture(numbers_.of(dependency.architecture));
        if (!dependency.version.empty()) set(*message.mutable_version(), dependency.version);
        message.set_kind(static_cast<std::uint32_t>(dependency.kind));
        message.set_relation(static_cast<std::uint32_t>(dependency.relation));
        message.set_or_next(dependency.or_next);
    }

    GraphNumbers numbers_;
};

// Message to pointers. Everything that a pointer may lead to exists before the first pointer is
// made.
class MessageReader {
  public:
    explicit MessageReader(std::pmr::memory_resource& memory) : maker_(memory) {}

    packages::Graph* read(const proto::Graph& message) {
        graph_ = maker_.graph();
        reserve(graph_->packages, message.packages_size());
        for (const auto& package : message.packages())
            graph_->packages.push_back(maker_.package(package.name()));
        reserve(graph_->maintainers, message.maintainers_size());
        for (const auto& maintainer : message.maintainers()) {
            graph_->maintainers.push_back(maker_.maintainer(maintainer.name(), maintainer.email()));
            read(maintainer.packages(), graph_->maintainers.back()->packages);
        }
        reserve(graph_->architectures, message.architectures_size());
        for (const auto& architecture : message.architectures())
            graph_->architectures.push_back(maker_.architecture(architecture.name()));
        auto package = graph_->packages.begin();
        for (const auto& each : message.packages()) read(each, *package++);
        return graph_;
    }

  private:
    void read(const proto::Package& message, packages::Package& package) {
        reserve(package.versions, message.versions_size());
        for (const auto& version : message.versions()) package.versions.push_back(read(version));
        read(message.provided_by(), package.provided_by);
        read(message.required_by(), package.required_by);
    }

    packages::Version read(const proto::Version& message) {
        packages::Version version{
            .maintainer = pointer_of(message.maintainer(), graph_->maintainers),
            .architecture = pointer_of(message.architecture(), graph_->architectures),
            .number = maker_.text(message.number()),
            .section = maker_.text(message.section()),
            .priority = maker_.text(message.priority()),
            .status = maker_.text(message.status()),
            .source = maker_.text(message.source()),
            .homepage = maker_.text(message.homepage()),
            .summary = maker_.text(message.summary()),
            .description = maker_.text(message.description()),
            .installed_kib = message.installed_kib(),
            .multi_arch = static_cast<packages::MultiArch>(message.multi_arch()),
            .essential = message.essential(),
            .dependencies = maker_.list<packages::Dependency>(),
            .provisions = maker_.list<packages::Provision>(),
            .other_fields = maker_.list<packages::Field>(),
        };
        reserve(version.dependencies, message.dependencies_size());
        for (const auto& each : message.dependencies()) version.dependencies.push_back(read(each));
        reserve(version.provisions, message.provisions_size());
        for (const auto& each : message.provisions())
            version.provisions.push_back(
                {pointer_of(each.package(), graph_->packages), maker_.text(each.version())});
        reserve(version.other_fields, message.other_fields_size());
        for (const auto& each : message.other_fields())
            version.other_fields.push_back({maker_.text(each.name()), maker_.text(each.value())});
        return version;
    }

    packages::Dependency read(const proto::Dependency& message) {
        return {pointer_of(message.target(), graph_->packages),
                pointer_of(message.architecture(), graph_->architectures),
                maker_.text(message.version()),
                static_cast<packages::Kind>(message.kind()),
                static_cast<packages::Relation>(message.relation()),
                message.or_next()};
    }

    void read(const google::protobuf::RepeatedField<std::uint32_t>& numbers,
              packages::List<packages::Package*>& list) {
        reserve(list, numbers.size());
        for (const std::uint32_t number : numbers)
            list.push_back(pointer_of(number, graph_->packages));
    }

    template <class T>
    static void reserve(packages::List<T>& list, int size) {
        list.reserve(static_cast<std::size_t>(size));
    }

    packages::Maker maker_;
    packages::Graph* graph_ = nullptr;
};

// `Wire` carries a message that is built already.
template <class Wire>
class MessagePackages {
  public:
    MessagePackages(const Packages& workload, const packages::Graph& sent)
        : wire_(workload.bytes(), 3 * workload.bytes()) {
        MessageWriter().write(sent, message_);
    }
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const packages::Graph&, GraphMemory&) { wire_.transfer(message_); }
    const packages::Graph& received(GraphMemory& memory) {
        memory.reset();
        return *MessageReader(memory).read(wire_.received());
    }

  private:
    proto::Graph message_;
    Wire wire_;
};

class ObjectsPackages {
  public:
    ObjectsPackages(const Packages& workload, const packages::Graph&)
        : building_(3 * workload.bytes()), wire_(workload.bytes(), 3 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const packages::Graph& sent, GraphMemory& memory) {
        building_.reset();
        writer_.write(sent, building_.message());
        received_ = MessageReader(memory).read(wire_.transfer(building_.message()));
    }
    const packages::Graph& received(GraphMemory&) { return *received_; }

  private:
    MessageWriter writer_;
    WarmMessage<proto::Graph> building_;
    ProtobufWire<proto::Graph> wire_;
    packages::Graph* received_ = nullptr;
};

template <class Codec>
void add(const Packages& workload, const char* subject) {
    add_subject(workload.name, subject,
                [=] { return std::make_unique<PeerSubject<Packages, Codec>>(workload); });
}

}  // namespace

void add_protobuf_packages() {
    for (const Packages& workload : kPackages) {
        add<MessagePackages<PlainProtobufWire<proto::Graph>>>(workload, "protobuf");
        add<MessagePackages<ProtobufWire<proto::Graph>>>(workload, "protobuf_arena");
        add<ObjectsPackages>(workload, "protobuf_objects");
    }
}

}  // namespace bench_graph
