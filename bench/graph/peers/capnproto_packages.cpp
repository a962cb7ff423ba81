// capnproto of the package graph: pointers to numbers, read in place.
#include <graphs.capnp.h>

#include "../workloads/packages.hpp"
#include "graph_numbers.hpp"
#include "package_reader.hpp"
#include "peer_subject.hpp"
#include "words_wire.hpp"

namespace bench_graph {
namespace {

class WordsWriter {
  public:
    explicit WordsWriter(const GraphNumbers& numbers) : numbers_(numbers) {}

    void write(words::Graph::Builder to, const packages::Graph& graph) const {
        list(to.initPackages(size(graph.packages)), graph.packages);
        list(to.initMaintainers(size(graph.maintainers)), graph.maintainers);
        list(to.initArchitectures(size(graph.architectures)), graph.architectures);
    }

  private:
    template <class T>
    static unsigned size(const packages::List<T>& list) {
        return static_cast<unsigned>(list.size());
    }
    static capnp::Text::Reader text(const packages::Text& from) {
        return {from.c_str(), from.size()};
    }
    template <class Builder, class List>
    void list(Builder to, const List& from) const {
        for (unsigned n = 0; n < to.size(); ++n) element(to[n], from[n]);
    }
    template <class Builder>
    void numbers(Builder to, const packages::List<packages::Package*>& from) const {
        for (unsigned n = 0; n < to.size(); ++n) to.set(n, numbers_.of(from[n]));
    }

    void element(words::Architecture::Builder to, const packages::Architecture* from) const {
        to.setName(text(from->name));
    }
    void element(words::Maintainer::Builder to, const packages::Maintainer* from) const {
        to.setName(text(from->name));
        to.setEmail(text(from->email));
        numbers(to.initPackages(size(from->packages)), from->packages);
    }
    void element(words::Package::Builder to, const packages::Package& from) const {
        to.setName(text(from.name));
        list(to.initVersions(size(from.versions)), from.versions);
        numbers(to.initProvidedBy(size(from.provided_by)), from.provided_by);
        numbers(to.initRequiredBy(size(from.required_by)), from.required_by);
    }
    void element(words::Dependency::Builder to, const packages::Dependency& from) const {
        to.setTarget(numbers_.of(from.target));
        to.setArchitecture(numbers_.of(from.architecture));
        if (!from.version.empty()) to.setVersion(text(from.version));
        to.setKind(static_cast<std::uint8_t>(from.kind));
        to.setRelation(static_cast<std::uint8_t>(from.relation));
        to.setOrNext(from.or_next);
    }
    void element(words::Provision::Builder to, const packages::Provision& from) const {
        to.setPackage(numbers_.of(from.package));
        if (!from.version.empty()) to.setVersion(text(from.version));
    }
    void element(words::Field::Builder to, const packages::Field& from) const {
        to.setName(text(from.name));
        to.setValue(text(from.value));
    }
    void element(words::Version::Builder to, const packages::Version& from) const {
        to.setMaintainer(numbers_.of(from.maintainer));
        to.setArchitecture(numbers_.of(from.architecture));
        to.setNumber(text(from.number));
        to.setSection(text(from.section));
        to.setPriority(text(from.priority));
        to.setStatus(text(from.status));
        to.setSource(text(from.source));
        to.setHomepage(text(from.homepage));
        to.setSummary(text(from.summary));
        to.setDescription(text(from.description));
        to.setInstalledKib(from.installed_kib);
        to.setMultiArch(static_cast<std::uint8_t>(from.multi_arch));
        to.setEssential(from.essential);
        list(to.initDependencies(size(from.dependencies)), from.dependencies);
        list(to.initProvisions(size(from.provisions)), from.provisions);
        list(to.initOtherFields(size(from.other_fields)), from.other_fields);
    }

    const GraphNumbers& numbers_;
};

struct WordsView {
    template <class List>
    static unsigned count(const List& list) {
        return list.size();
    }
    template <class List>
    static auto at(const List& list, unsigned n) {
        return list[n];
    }
    static std::string_view text(capnp::Text::Reader from) { return {from.begin(), from.size()}; }

    static auto packages(words::Graph::Reader from) { return from.getPackages(); }
    static auto maintainers(words::Graph::Reader from) { return from.getMaintainers(); }
    static auto architectures(words::Graph::Reader from) { return from.getArchitectures(); }
    template <class T>
    static std::string_view name(const T& from) {
        return text(from.getName());
    }
    static std::string_view email(words::Maintainer::Reader from) { return text(from.getEmail()); }
    static auto numbers(words::Maintainer::Reader from) { return from.getPackages(); }
    static auto versions(words::Package::Reader from) { return from.getVersions(); }
    static auto provided_by(words::Package::Reader from) { return from.getProvidedBy(); }
    static auto required_by(words::Package::Reader from) { return from.getRequiredBy(); }
    static auto maintainer(words::Version::Reader from) { return from.getMaintainer(); }
    template <class T>
    static auto architecture(const T& from) {
        return from.getArchitecture();
    }
    static auto dependencies(words::Version::Reader from) { return from.getDependencies(); }
    static auto provisions(words::Version::Reader from) { return from.getProvisions(); }
    static auto other_fields(words::Version::Reader from) { return from.getOtherFields(); }
    static auto target(words::Dependency::Reader from) { return from.getTarget(); }
    static auto package(words::Provision::Reader from) { return from.getPackage(); }
    static auto version(words::Provision::Reader from) { return text(from.getVersion()); }
    static auto value(words::Field::Reader from) { return text(from.getValue()); }

    static packages::Dependency dependency(words::Dependency::Reader from,
                                           const packages::Maker& maker) {
        return {nullptr,
                nullptr,
                maker.text(text(from.getVersion())),
                static_cast<packages::Kind>(from.getKind()),
                static_cast<packages::Relation>(from.getRelation()),
                from.getOrNext()};
    }
    static packages::Version values(words::Version::Reader from, const packages::Maker& maker) {
        return {nullptr,
                nullptr,
                maker.text(text(from.getNumber())),
                maker.text(text(from.getSection())),
                maker.text(text(from.getPriority())),
                maker.text(text(from.getStatus())),
                maker.text(text(from.getSource())),
                maker.text(text(from.getHomepage())),
                maker.text(text(from.getSummary())),
                maker.text(text(from.getDescription())),
                from.getInstalledKib(),
                static_cast<packages::MultiArch>(from.getMultiArch()),
                from.getEssential(),
                maker.list<packages::Dependency>(),
                maker.list<packages::Provision>(),
                maker.list<packages::Field>()};
    }
};

class WordsPackages {
  public:
    WordsPackages(const Packages& workload, const packages::Graph&) : wire_(2 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const packages::Graph& sent, GraphMemory&) {
        numbers_.number(sent);
        wire_.transfer<words::Graph>(
            [&](words::Graph::Builder message) { WordsWriter(numbers_).write(message, sent); });
    }
    const packages::Graph& received(GraphMemory& memory) {
        memory.reset();
        return *PackageReader<WordsView>(memory).read(wire_.message<words::Graph>());
    }

  private:
    GraphNumbers numbers_;
    WordsWire wire_;
};

}  // namespace

void add_capnproto_packages() {
    for (const Packages& workload : kPackages)
        add_subject(workload.name, "capnproto", [=] {
            return std::make_unique<PeerSubject<Packages, WordsPackages>>(workload);
        });
}

}  // namespace bench_graph
