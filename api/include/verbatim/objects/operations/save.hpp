// save() and map() keep graphs in files (docs/saved-graphs.md).
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include <verbatim/objects/operations/graph_file.hpp>
#include <verbatim/objects/operations/received.hpp>

namespace verbatim {
namespace objects {

// Objects of a placed file hold addresses of the file's own range, and no others.
template <class T>
inline constexpr bool kHoldsOtherAddresses = [] {
    if constexpr (std::is_polymorphic_v<T>)
        return true;
    else if constexpr (requires { TraitOf<T>::kHoldsOtherAddresses; })
        return TraitOf<T>::kHoldsOtherAddresses;
    else if constexpr (requires { TraitOf<T>::kPolymorphic; })
        return TraitOf<T>::kPolymorphic;
    else
        return false;
}();
template <class M>
inline constexpr bool kHoldsOtherAddresses<detail::TransientMember<M>> = !std::is_scalar_v<M>;
template <class Root>
inline constexpr bool kCanBePlaced = []<class... T>(List<T...>) {
    return !detail::kHasCounts<Closure<Root>> && !(kHoldsOtherAddresses<T> || ...);
}(typename Closure<Root>::Types{});

template <class T>
SaveReport save_into(GraphFileWriter& file, const T& root, const SaveOptions& options) {
    LocalTables tables;
    Packer<T> packer(tables.packing, root, {});
    const SaveReport report = file.write(packer, root_type<T>());
    file.commit(options);
    return report;
}
template <class T>
SaveReport save_placed_into(GraphFileWriter& file, const T& root, const SaveOptions& options) {
    static_assert(kCanBePlaced<T>,
                  "verbatim: a graph with memory resources (std::pmr), virtual functions, weak "
                  "pointers, paths or transient members that are no numbers holds addresses of its "
                  "process; use save()");
    LocalTables tables;
    Packer<T> packer(tables.packing, root, {});
    Mender<T> mender(tables.mending, false);
    const SaveReport report = file.write_placed(packer, mender, root_type<T>());
    file.commit(options);
    return report;
}

template <class T>
Received<T> map_placed(GraphFile& file) {
    if constexpr (!kCanBePlaced<std::remove_const_t<T>>) {
        Mending::corrupt("a placed file of a type that cannot be placed");
    } else {
        GraphFile::Placed placed = file.map(!std::is_const_v<T>);
        auto* const root = reinterpret_cast<T*>(placed.root);
        return {memory_of(std::move(placed.block)),
                root,
                {file.objects(), 0, file.image_bytes(), false, placed.is_relocated}};
    }
}
template <class T>
Received<T> map_file(GraphFile& file) {
    using Root = std::remove_const_t<T>;
    if (file.is_placed()) return map_placed<T>(file);
    PrivateBlock image = file.read();
    MendTables tables;
    Mender<Root> mender(tables, false);
    objects::mend_at(image.data(), file.facts(), mender);
    if constexpr (std::is_const_v<T>) image.make_read_only();
    return {memory_of(std::move(image)),
            static_cast<T*>(mender.root()),
            {mender.objects(), mender.records(), mender.image_bytes()}};
}

}  // namespace objects

// Saves everything reachable from `root`. The file appears under its name when it is whole, and
// replaces the one that had it. Nothing of the graph is modified. Throws Error: the walk's
// (bad_pointer, graph_too_large), or the file system's (permission_denied, out_of_memory,
// invalid_argument); the former file is then as it was.
template <class T>
SaveReport save(const std::string& path, const T& root, SaveOptions options = {}) {
    objects::GraphFileWriter file(path);
    return objects::save_into(file, root, options);
}
// The same into a regular file that is open for reading and writing; not atomic.
template <class T>
SaveReport save(int file, const T& root, SaveOptions options = {}) {
    objects::GraphFileWriter writer(file);
    return objects::save_into(writer, root, options);
}

// Saves the graph as it will lie in memory, for a fixed range of addresses: map() with `trusted`
// then costs nothing for each object. A type with addresses of its process is a compile-time error.
template <class T>
SaveReport save_placed(const std::string& path, const T& root, SaveOptions options = {}) {
    objects::GraphFileWriter file(path);
    return objects::save_placed_into(file, root, options);
}
template <class T>
SaveReport save_placed(int file, const T& root, SaveOptions options = {}) {
    objects::GraphFileWriter writer(file);
    return objects::save_placed_into(writer, root, options);
}

// The graph of a file whose root is a T: of `const T` read only, else private to this process, and
// never written back. The file is read into private memory and verified, unless it is placed.
// Throws Error(type_mismatch, which names the first field that differs | corrupt_message |
// unsupported | invalid_argument | permission_denied | out_of_memory).
template <class T>
Received<T> map(const std::string& path, MapOptions options = {}) {
    objects::GraphFile file(path, objects::root_type<std::remove_const_t<T>>(), options);
    return objects::map_file<T>(file);
}
template <class T>
Received<T> map(int file, MapOptions options = {}) {
    objects::GraphFile opened(file, objects::root_type<std::remove_const_t<T>>(), options);
    return objects::map_file<T>(opened);
}

}  // namespace verbatim
