#include <verbatim/objects/classes/cloned_classes.hpp>

#include <verbatim/driver/error.hpp>

#include "class_names.hpp"
#include "table_head.hpp"

namespace verbatim::objects {

void ClonedClasses::look_up(std::uint64_t table) {
    if (const auto at = tables_.find(table); at != tables_.end()) {
        last_ = at->second;
    } else {
        const TableHead head = head_of(table);
        const PolymorphicClass* const found =
            head.id == nullptr ? nullptr : registered_class(*head.id);
        if (found == nullptr)
            throw Error(Errc::unsupported, "clone of a graph",
                        "an object is of a class that is not described",
                        "add VERBATIM_DESCRIBE_DERIVED(Type, (Base), member, ...) after it");
        if (found->cloning == nullptr)
            throw Error(Errc::unsupported, "clone of class " + found->info().spelled(),
                        "it has no virtual destructor, or leads to what has no owner (by a raw "
                        "pointer, a view or a weak pointer) or cannot be moved",
                        "give each of its objects an owner, or use compact()");
        last_ = {found, static_cast<std::uint32_t>(-head.offset_to_top)};
        tables_.emplace(table, last_);
    }
    table_ = table;
}

}  // namespace verbatim::objects
