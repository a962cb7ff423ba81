// flatbuffers of the package graph: pointers to numbers in tables, verified and read in place.
#include <graphs_generated.h>

#include "../workloads/packages.hpp"
#include "flat_wire.hpp"
#include "graph_numbers.hpp"
#include "package_reader.hpp"
#include "peer_subject.hpp"

namespace bench_graph {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;
template <class T>
using Tables = Offset<Vector<Offset<T>>>;

// Children before their parents, as the format wants it.
class FlatWriter {
  public:
    FlatWriter(flatbuffers::FlatBufferBuilder& builder, const GraphNumbers& numbers)
        : builder_(builder), numbers_(numbers) {}

    Offset<flat::Graph> write(const packages::Graph& graph) {
        const auto packages = tables<flat::Package>(graph.packages);
        const auto maintainers = tables<flat::Maintainer>(graph.maintainers);
        const auto architectures = tables<flat::Architecture>(graph.architectures);
        return flat::CreateGraph(builder_, packages, maintainers, architectures);
    }

  private:
    Offset<flatbuffers::String> text(const packages::Text& from) {
        return builder_.CreateString(from.data(), from.size());
    }
    template <class T, class List>
    Tables<T> tables(const List& list) {
        std::vector<Offset<T>> written;
        written.reserve(list.size());
        for (const auto& each : list) written.push_back(table(each));
        return builder_.CreateVector(written);
    }
    Offset<Vector<std::uint32_t>> numbers(const packages::List<packages::Package*>& list) {
        std::uint32_t* to = nullptr;
        const auto written = builder_.CreateUninitializedVector<std::uint32_t>(list.size(), &to);
        for (const auto* package : list) *to++ = numbers_.of(package);
        return written;
    }

    Offset<flat::Architecture> table(const packages::Architecture* from) {
        return flat::CreateArchitecture(builder_, text(from->name));
    }
    Offset<flat::Maintainer> table(const packages::Maintainer* from) {
        const auto name = text(from->name), email = text(from->email);
        return flat::CreateMaintainer(builder_, name, email, numbers(from->packages));
    }
    Offset<flat::Package> table(const packages::Package& from) {
        const auto name = text(from.name);
        const auto versions = tables<flat::Version>(from.versions);
        const auto provided_by = numbers(from.provided_by);
        return flat::CreatePackage(builder_, name, versions, provided_by,
                                   numbers(from.required_by));
    }
    Offset<flat::Dependency> table(const packages::Dependency& from) {
        return flat::CreateDependency(builder_, numbers_.of(from.target),
                                      numbers_.of(from.architecture), text(from.version),
                                      static_cast<std::uint8_t>(from.kind),
                                      static_cast<std::uint8_t>(from.relation), from.or_next);
    }
    Offset<flat::Provision> table(const packages::Provision& from) {
        return flat::CreateProvision(builder_, numbers_.of(from.package), text(from.version));
    }
    Offset<flat::Field> table(const packages::Field& from) {
        const auto name = text(from.name);
        return flat::CreateField(builder_, name, text(from.value));
    }
    Offset<flat::Version> table(const packages::Version& from) {
        const auto number = text(from.number), section = text(from.section),
                   priority = text(from.priority), status = text(from.status),
                   source = text(from.source), homepage = text(from.homepage),
                   summary = text(from.summary), description = text(from.description);
        const auto dependencies = tables<flat::Dependency>(from.dependencies);
        const auto provisions = tables<flat::Provision>(from.provisions);
        const auto fields = tables<flat::Field>(from.other_fields);
        return flat::CreateVersion(builder_, numbers_.of(from.maintainer),
                                   numbers_.of(from.architecture), number, section, priority,
                                   status, source, homepage, summary, description,
                                   from.installed_kib, static_cast<std::uint8_t>(from.multi_arch),
                                   from.essential, dependencies, provisions, fields);
    }

    flatbuffers::FlatBufferBuilder& builder_;
    const GraphNumbers& numbers_;
};

struct FlatView {
    template <class List>
    static unsigned count(const List* list) {
        return list->size();
    }
    template <class T>
    static const T& at(const Vector<Offset<T>>* list, unsigned n) {
        return *list->Get(n);
    }
    static std::uint32_t at(const Vector<std::uint32_t>* list, unsigned n) { return list->Get(n); }
    static std::string_view text(const flatbuffers::String* from) { return from->string_view(); }

    static auto packages(const flat::Graph& from) { return from.packages(); }
    static auto maintainers(const flat::Graph& from) { return from.maintainers(); }
    static auto architectures(const flat::Graph& from) { return from.architectures(); }
    template <class T>
    static std::string_view name(const T& from) {
        return text(from.name());
    }
    static std::string_view email(const flat::Maintainer& from) { return text(from.email()); }
    static auto numbers(const flat::Maintainer& from) { return from.packages(); }
    static auto versions(const flat::Package& from) { return from.versions(); }
    static auto provided_by(const flat::Package& from) { return from.provided_by(); }
    static auto required_by(const flat::Package& from) { return from.required_by(); }
    static auto maintainer(const flat::Version& from) { return from.maintainer(); }
    template <class T>
    static auto architecture(const T& from) {
        return from.architecture();
    }
    static auto dependencies(const flat::Version& from) { return from.dependencies(); }
    static auto provisions(const flat::Version& from) { return from.provisions(); }
    static auto other_fields(const flat::Version& from) { return from.other_fields(); }
    static auto target(const flat::Dependency& from) { return from.target(); }
    static auto package(const flat::Provision& from) { return from.package(); }
    static auto version(const flat::Provision& from) { return text(from.version()); }
    static auto value(const flat::Field& from) { return text(from.value()); }

    static packages::Dependency dependency(const flat::Dependency& from,
                                           const packages::Maker& maker) {
        return {nullptr,
                nullptr,
                maker.text(text(from.version())),
                static_cast<packages::Kind>(from.kind()),
                static_cast<packages::Relation>(from.relation()),
                from.or_next()};
    }
    static packages::Version values(const flat::Version& from, const packages::Maker& maker) {
        return {nullptr,
                nullptr,
                maker.text(text(from.number())),
                maker.text(text(from.section())),
                maker.text(text(from.priority())),
                maker.text(text(from.status())),
                maker.text(text(from.source())),
                maker.text(text(from.homepage())),
                maker.text(text(from.summary())),
                maker.text(text(from.description())),
                from.installed_kib(),
                static_cast<packages::MultiArch>(from.multi_arch()),
                from.essential(),
                maker.list<packages::Dependency>(),
                maker.list<packages::Provision>(),
                maker.list<packages::Field>()};
    }
};

class FlatPackages {
  public:
    FlatPackages(const Packages& workload, const packages::Graph&) : wire_(2 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const packages::Graph& sent, GraphMemory&) {
        numbers_.number(sent);
        message_ = &wire_.transfer<flat::Graph>([&](flatbuffers::FlatBufferBuilder& builder) {
            return FlatWriter(builder, numbers_).write(sent);
        });
    }
    const packages::Graph& received(GraphMemory& memory) {
        memory.reset();
        return *PackageReader<FlatView>(memory).read(*message_);
    }

  private:
    GraphNumbers numbers_;
    FlatWire wire_;
    const flat::Graph* message_ = nullptr;
};

}  // namespace

void add_flatbuffers_packages() {
    for (const Packages& workload : kPackages)
        add_subject(workload.name, "flatbuffers", [=] {
            return std::make_unique<PeerSubject<Packages, FlatPackages>>(workload);
        });
}

}  // namespace bench_graph
