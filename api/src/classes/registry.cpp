// What all walks of this process over open graphs share: numbers of types, classes by their type
// and their name, virtual tables.
#include <dlfcn.h>

#include <array>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <typeindex>
#include <unordered_map>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/classes/polymorphic_class.hpp>
#include <verbatim/objects/classes/told_classes.hpp>
#include <verbatim/objects/describe/virtual_tables.hpp>

#include "class_names.hpp"

namespace verbatim::objects {
namespace {

// Placement keeps the highest bit of a number for itself, and 0x7fff for no type.
constexpr std::size_t kMostTypes = 0x7ffe;

struct OpenTypes {
    std::array<const TypeKey*, kMostTypes> keys{};
    std::array<const OpenType*, kMostTypes> types{};
};
// Never moved: walks read them without the mutex.
constinit OpenTypes open_types;

// Nothing foreign is called with the mutex held: libraries come here while the loader's lock is
// theirs.
class Registry {
  public:
    std::uint16_t number_of(const std::type_info& id, const OpenType& type) {
        const std::lock_guard lock(mutex_);
        const auto [at, is_new] = numbers_.try_emplace(id, std::uint16_t{0});
        if (!is_new) return at->second;
        if (numbers_.size() > kMostTypes)
            throw Error(Errc::unsupported, "type " + readable_name(id),
                        "it is the 32,767th type of open graphs in this process",
                        "send fewer types");
        at->second = static_cast<std::uint16_t>(numbers_.size());
        open_types.keys[at->second - 1u] = type.key;
        open_types.types[at->second - 1u] = &type;
        return at->second;
    }
    std::uint16_t static_number_of(const std::type_info& id) {
        const std::lock_guard lock(mutex_);
        const auto next = static_cast<std::uint16_t>(static_numbers_.size());
        return static_numbers_.try_emplace(id, next).first->second;
    }
    void add(const PolymorphicClass& polymorphic, const std::string& name, std::string_view file) {
        const std::lock_guard lock(mutex_);
        if (!classes_.try_emplace(*polymorphic.id, &polymorphic).second) return;
        names_.try_emplace(name, &polymorphic);
        files_.try_emplace(&polymorphic, file);
    }
    std::string file_of(const PolymorphicClass& polymorphic) {
        const std::lock_guard lock(mutex_);
        const auto at = files_.find(&polymorphic);
        return at == files_.end() ? std::string() : at->second;
    }
    const PolymorphicClass* find(const std::type_info& id) {
        const std::lock_guard lock(mutex_);
        const auto at = classes_.find(id);
        return at == classes_.end() ? nullptr : at->second;
    }
    const PolymorphicClass* find(std::string_view name) {
        const std::lock_guard lock(mutex_);
        const auto at = names_.find(name);
        return at == names_.end() ? nullptr : at->second;
    }
    const void** tables_of(const std::type_info& id, std::size_t count) {
        const std::lock_guard lock(mutex_);
        auto& room = tables_[id];
        if (room == nullptr) room = std::make_unique<const void*[]>(count);
        return room.get();
    }
    // True the first time.
    bool keeps(const void* library) {
        const std::lock_guard lock(mutex_);
        return kept_.insert(library).second;
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::type_index, std::uint16_t> numbers_, static_numbers_;
    std::unordered_map<std::type_index, const PolymorphicClass*> classes_;
    std::map<std::string, const PolymorphicClass*, std::less<>> names_;
    std::unordered_map<const PolymorphicClass*, std::string> files_;
    std::unordered_map<std::type_index, std::unique_ptr<const void*[]>> tables_;
    std::set<const void*> kept_;
};

// Libraries register before main() and after: it is there first and ends never.
Registry& registry() {
    static auto* const made = new Registry;
    return *made;
}

// Classes whose tables are known.
struct Learned {
    // Recursive: a prototype's constructor may ask for classes, too.
    std::recursive_mutex mutex;
    std::set<std::type_index> types;
};
Learned& learned() {
    static auto* const made = new Learned;
    return *made;
}

}  // namespace

std::uint16_t open_type_number(const std::type_info& id, const OpenType& type) {
    const std::uint16_t number = registry().number_of(id, type);
    if (&open_type(number) == &type) keep_library_of(&type);
    return number;
}
const OpenType& open_type(std::uint16_t number) noexcept { return *open_types.types[number - 1u]; }
std::span<const TypeKey* const> open_type_keys() noexcept { return open_types.keys; }
std::uint16_t static_type_number(const std::type_info& id) {
    return registry().static_number_of(id);
}

void register_class(const PolymorphicClass& polymorphic, const char* file) {
    std::string_view name(file);
    name.remove_prefix(name.find_last_of('/') + 1);
    if (!may_be_told(name, ToldClasses::kMostFileBytes)) name = {};
    registry().add(polymorphic, polymorphic.info().spelled(), name);
    keep_library_of(&polymorphic);
}
std::string described_in(const PolymorphicClass& polymorphic) {
    return registry().file_of(polymorphic);
}
const PolymorphicClass* registered_class(const std::type_info& id) { return registry().find(id); }
const PolymorphicClass* registered_class(std::string_view name) { return registry().find(name); }

void keep_library_of(const void* object) {
    Dl_info library{};
    if (dladdr(object, &library) == 0 || !registry().keeps(library.dli_fbase)) return;
    // Null for the program itself, which stays anyway. The handle is not given back.
    (void)dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

const void** virtual_tables_of(const std::type_info& id, std::size_t count) {
    return registry().tables_of(id, count);
}

void learn_virtual_tables(const std::type_info& id, void (*learn)()) {
    Learned& all = learned();
    const std::lock_guard lock(all.mutex);
    if (all.types.contains(id)) return;
    const auto refuse = [&](const std::string& cause) {
        throw Error(Errc::unsupported, "class " + readable_name(id),
                    "the constructor of its prototype threw: " + cause,
                    "name arguments that it accepts in VERBATIM_PROTOTYPE");
    };
    try {
        learn();
    } catch (const std::exception& error) {
        refuse(error.what());
    } catch (...) {
        refuse("something that is no std::exception");
    }
    all.types.insert(id);
}

}  // namespace verbatim::objects
