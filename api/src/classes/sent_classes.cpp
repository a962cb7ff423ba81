#include <verbatim/objects/classes/sent_classes.hpp>

#include <algorithm>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/classes/told_classes.hpp>

#include "class_names.hpp"
#include "table_head.hpp"

namespace verbatim::objects {

void check_exact_class(const void* object, const TypeInfo& info) {
    const TableHead head = head_of(SentClasses::table_of(object));
    if (head.id == nullptr || info.id == nullptr || *head.id == *info.id) return;
    throw Error(Errc::bad_pointer, "view of " + info.spelled(),
                "it leads to an object of class " + readable_name(*head.id),
                "use a vector of pointers: elements of a view are of its own type");
}

const KnownTable& SentClasses::learn(std::uint64_t table, const TypeInfo& info) {
    const TableHead head = head_of(table);
    if (head.id == nullptr)
        throw Error(Errc::unsupported, "object reached as " + info.spelled(),
                    "its class has no type information", "compile it without -fno-rtti");
    const PolymorphicClass* const found = registered_class(*head.id);
    if (found == nullptr)
        throw Error(Errc::unsupported, "object of class " + readable_name(*head.id),
                    "the class is not described",
                    "add VERBATIM_DESCRIBE_DERIVED(Type, (Base), member, ...) after it");
    auto known = std::make_unique<KnownTable>();
    known->of = found;
    known->follow = found->follow;
    known->delta = static_cast<std::uint32_t>(-head.offset_to_top);
    check(*known, info);
    known->number = number_of(*found);
    // Its tables may be in another library than the class: their addresses must not come again.
    keep_library_of(reinterpret_cast<const void*>(table));
    return *(tables_[table] = std::move(known));
}

void SentClasses::check(const KnownTable& known, const TypeInfo& info) {
    const TypeInfo& derived = known.of->info();
    // Throws if its description leaves something out.
    const Layout& layout = layout_of(derived);
    if (layout.text.empty() || !derives(derived, info, known.delta))
        throw Error(Errc::unsupported, "class " + derived.spelled(),
                    "it is not described as derived from " + info.spelled(),
                    "name all base classes in VERBATIM_DESCRIBE_DERIVED");
}

std::uint32_t SentClasses::number_of(const PolymorphicClass& polymorphic) {
    const auto at = std::find(classes_.begin(), classes_.end(), &polymorphic);
    if (at != classes_.end()) return static_cast<std::uint32_t>(at - classes_.begin() + 1);
    const std::string name = polymorphic.info().spelled();
    if (classes_.size() >= ToldClasses::kMost || name.size() > ToldClasses::kMostNameBytes)
        throw Error(Errc::unsupported, "class " + name,
                    "a connection carries at most 4096 classes, with names of 1024 characters",
                    "send fewer classes, or shorten their names");
    classes_.push_back(&polymorphic);
    return static_cast<std::uint32_t>(classes_.size());
}

std::uint64_t SentClasses::record_type(std::uint16_t number,
                                       std::span<const std::uint16_t> root) const {
    const auto position_in = [number](std::span<const std::uint16_t> types) {
        const auto at = std::find(types.begin(), types.end(), number);
        return at == types.end() ? 0 : static_cast<std::uint64_t>(at - types.begin() + 1);
    };
    if (const std::uint64_t position = position_in(root)) return position;
    for (std::size_t i = 0; i < classes_.size(); ++i)
        if (const std::uint64_t position = position_in(classes_[i]->types()))
            return (i + 1) << kRecordClassShift | position;
    return 0;
}

}  // namespace verbatim::objects
