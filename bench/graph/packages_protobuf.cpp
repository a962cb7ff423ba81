// protobuf: a message that is already built is serialized, copied and parsed; the receiver gets a
// message. protobuf_objects: the same job as ours: from pointers to a message and back to pointers.
#include <string>

#include <messages.pb.h>
#include "graph_numbers.hpp"
#include "packages/maker.hpp"
#include "packages_subject.hpp"
#include "protobuf_wire.hpp"

namespace bench_graph {
namespace {

// Pointers to message.
class MessageWriter {
  public:
    void write(const packages::Graph& graph, proto::Graph& message) {
        numbers_.number(graph);
        for (const auto* package : graph.packages) write(*package, *message.add_packages());
        for (const auto* maintainer : graph.maintainers) {
            proto::Maintainer& added = *message.add_maintainers();
            set(*added.mutable_name(), maintainer->name);
            set(*added.mutable_email(), maintainer->email);
            for (const auto* version : maintainer->versions)
                added.add_versions(numbers_.of(version));
        }
    }

  private:
    static void set(std::string& to, const packages::Text& from) {
        to.assign(from.data(), from.size());
    }

    void write(const packages::Package& package, proto::Package& message) {
        set(*message.mutable_name(), package.name);
        for (const auto* version : package.versions) write(*version, *message.add_versions());
        for (const auto* version : package.provided_by)
            message.add_provided_by(numbers_.of(version));
        for (const auto* requirement : package.required_by)
            message.add_required_by(numbers_.of(requirement));
    }

    void write(const packages::Version& version, proto::Version& message) {
        if (version.maintainer != nullptr)
            message.set_maintainer(numbers_.of(version.maintainer) + 1);
        set(*message.mutable_number(), version.number);
        set(*message.mutable_architecture(), version.architecture);
        set(*message.mutable_section(), version.section);
        set(*message.mutable_priority(), version.priority);
        set(*message.mutable_status(), version.status);
        set(*message.mutable_summary(), version.summary);
        set(*message.mutable_description(), version.description);
        message.set_installed_kib(version.installed_kib);
        message.set_multi_arch(static_cast<std::uint32_t>(version.multi_arch));
        message.set_essential(version.essential);
        for (const auto* requirement : version.requirements)
            write(*requirement, *message.add_requirements());
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

    void write(const packages::Requirement& requirement, proto::Requirement& message) {
        message.set_kind(static_cast<std::uint32_t>(requirement.kind));
        for (const auto& alternative : requirement.alternatives) {
            proto::Alternative& added = *message.add_alternatives();
            added.set_target(numbers_.of(alternative.target));
            added.set_relation(static_cast<std::uint32_t>(alternative.relation));
            set(*added.mutable_version(), alternative.version);
            set(*added.mutable_architecture(), alternative.architecture);
        }
    }

    GraphNumbers numbers_;
};

// Message to pointers. All packages exist before the first relation needs one.
class MessageReader {
  public:
    explicit MessageReader(std::pmr::memory_resource& memory) : maker_(memory) {}

    packages::Graph* read(const proto::Graph& message) {
        tables_.clear();
        graph_ = maker_.graph();
        graph_->packages.reserve(static_cast<std::size_t>(message.packages_size()));
        for (const auto& package : message.packages())
            graph_->packages.push_back(maker_.package(maker_.text(package.name())));
        graph_->maintainers.reserve(static_cast<std::size_t>(message.maintainers_size()));
        for (const auto& maintainer : message.maintainers())
            graph_->maintainers.push_back(maker_.maintainer(maintainer.name(), maintainer.email()));
        std::size_t next = 0;
        for (const auto& package : message.packages())
            read_versions(package, graph_->packages[next++]);
        read_back_references(message);
        return graph_;
    }

  private:
    void read_versions(const proto::Package& message, packages::Package* package) {
        package->versions.reserve(static_cast<std::size_t>(message.versions_size()));
        for (const auto& version : message.versions())
            package->versions.push_back(read(version, package));
    }

    packages::Version* read(const proto::Version& message, packages::Package* package) {
        const std::uint32_t caretaker = message.maintainer();
        packages::Version* version = maker_.make(packages::Version{
            .package = package,
            .maintainer = caretaker == 0 ? nullptr : graph_->maintainers[caretaker - 1],
            .number = maker_.text(message.number()),
            .architecture = maker_.text(message.architecture()),
            .section = maker_.text(message.section()),
            .priority = maker_.text(message.priority()),
            .status = maker_.text(message.status()),
            .summary = maker_.text(message.summary()),
            .description = maker_.text(message.description()),
            .installed_kib = message.installed_kib(),
            .multi_arch = static_cast<packages::MultiArch>(message.multi_arch()),
            .essential = message.essential(),
            .requirements = list<packages::Requirement*>(message.requirements_size()),
            .provisions = list<packages::Provision>(message.provisions_size()),
            .other_fields = list<packages::Field>(message.other_fields_size()),
        });
        tables_.versions.push_back(version);
        for (const auto& requirement : message.requirements())
            version->requirements.push_back(read(requirement, version));
        for (const auto& provision : message.provisions())
            version->provisions.push_back(
                {graph_->packages[provision.package()], maker_.text(provision.version())});
        for (const auto& field : message.other_fields())
            version->other_fields.push_back(
                {maker_.text(field.name()), maker_.text(field.value())});
        return version;
    }

    packages::Requirement* read(const proto::Requirement& message, packages::Version* owner) {
        packages::Requirement* requirement = maker_.make(
            packages::Requirement{owner, static_cast<packages::Kind>(message.kind()),
                                  list<packages::Alternative>(message.alternatives_size())});
        for (const auto& each : message.alternatives())
            requirement->alternatives.push_back(
                {graph_->packages[each.target()], static_cast<packages::Relation>(each.relation()),
                 maker_.text(each.version()), maker_.text(each.architecture())});
        tables_.requirements.push_back(requirement);
        return requirement;
    }

    void read_back_references(const proto::Graph& message) {
        std::size_t next = 0;
        for (const auto& each : message.packages()) {
            packages::Package* package = graph_->packages[next++];
            resolve(each.provided_by(), tables_.versions, package->provided_by);
            resolve(each.required_by(), tables_.requirements, package->required_by);
        }
        next = 0;
        for (const auto& each : message.maintainers())
            resolve(each.versions(), tables_.versions, graph_->maintainers[next++]->versions);
    }

    template <class T>
    static void resolve(const google::protobuf::RepeatedField<std::uint32_t>& numbers,
                        const std::vector<T*>& table, packages::List<T*>& pointers) {
        pointers.reserve(static_cast<std::size_t>(numbers.size()));
        for (const std::uint32_t number : numbers) pointers.push_back(table[number]);
    }

    template <class T>
    packages::List<T> list(int size) const {
        return maker_.list<T>(static_cast<std::size_t>(size));
    }

    packages::Maker maker_;
    packages::Graph* graph_ = nullptr;
    GraphTables tables_;
};

class PackagesProtobuf final : public PackagesSubject {
  public:
    PackagesProtobuf() { MessageWriter().write(sent(), message_); }
    std::uint64_t bytes() const override { return wire_.bytes(); }
    void transfer() override { wire_.transfer(message_); }
    bool verify() override {
        std::pmr::monotonic_buffer_resource memory;
        return equals_sent(*MessageReader(memory).read(wire_.received()));
    }

  private:
    proto::Graph message_;
    ProtobufWire<proto::Graph> wire_{package_graph_bytes(), 3 * package_graph_bytes()};
};

class PackagesProtobufObjects final : public PackagesSubject {
  public:
    std::uint64_t bytes() const override { return wire_.bytes(); }
    void transfer() override {
        building_.reset();
        writer_.write(sent(), building_.message());
        memory_.reset();
        received_ = reader_.read(wire_.transfer(building_.message()));
    }
    bool verify() override { return equals_sent(*received_); }

  private:
    MessageWriter writer_;
    WarmMessage<proto::Graph> building_{3 * package_graph_bytes()};
    ProtobufWire<proto::Graph> wire_{package_graph_bytes(), 3 * package_graph_bytes()};
    WarmMemory memory_{2 * package_graph_bytes()};
    MessageReader reader_{memory_};
    packages::Graph* received_ = nullptr;
};

}  // namespace

void add_packages_protobuf() {
    add_subject(kPackagesCase, "protobuf", [] { return std::make_unique<PackagesProtobuf>(); });
    add_subject(kPackagesCase, "protobuf_objects",
                [] { return std::make_unique<PackagesProtobufObjects>(); });
}

}  // namespace bench_graph
