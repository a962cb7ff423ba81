#include <verbatim/objects/classes/told_classes.hpp>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/graph/image_cursor.hpp>

#include "class_names.hpp"

namespace verbatim::objects {

bool ToldClasses::add(std::uint32_t number, std::uint64_t fingerprint, std::string_view name,
                      std::string_view file) {
    if (number != told_.size() + 1 || number > kMost || name.empty() ||
        !may_be_told(name, kMostNameBytes) || !may_be_told(file, kMostFileBytes))
        return false;
    told_.push_back({fingerprint, std::string(name), std::string(file)});
    return true;
}

const PolymorphicClass& ToldClasses::find(std::uint64_t number) {
    if (number == 0 || number > told_.size()) throw_corrupt("an object of a class without a name");
    Told& told = told_[number - 1];
    if (told.known == nullptr) told.known = &look_up(told);
    return *told.known;
}

const PolymorphicClass& ToldClasses::look_up(const Told& told) const {
    const PolymorphicClass* const found = registered_class(std::string_view(told.name));
    if (found == nullptr)
        throw Error(Errc::type_mismatch, "class " + told.name,
                    "the sender sends objects of it, and this program does not know it",
                    "include the header that describes it (" +
                        (told.file.empty() ? std::string("VERBATIM_DESCRIBE_DERIVED")
                                           : "in the sending program: " + told.file) +
                        ") in the receiving program, or load the library that has it");
    const Layout& ours = layout_of(found->info());
    if (ours.fingerprint != told.fingerprint) {
        const std::string_view theirs =
            find_layout_ == nullptr ? std::string_view() : find_layout_(owner_, told.fingerprint);
        throw Error(Errc::type_mismatch, "class " + told.name,
                    "sender and receiver lay it out differently",
                    (theirs.empty() ? std::string() : first_difference(theirs, ours.text) + "; ") +
                        "build both programs from the same definition");
    }
    found->prepare();
    return *found;
}

const ClassUse& ToldClasses::use(std::uint64_t said, std::uint16_t static_type,
                                 const TypeInfo& info, ClassCounts& counts) {
    const std::uint64_t number = said & 0xffffffff;
    const std::uint64_t delta = (said & ~kClassBit) >> kClassDeltaShift;
    if (number > kMost || delta >= kClassMostBytes)
        throw_corrupt("an object of a class without a name");
    // 13, 29 and 16 bits.
    const std::uint64_t key = number | delta << 13 | static_cast<std::uint64_t>(static_type) << 42;
    if (const auto at = uses_.find(key); at != uses_.end()) {
        ++counts.warm;
        return at->second;
    }
    ++counts.cold;
    const PolymorphicClass& found = find(number);
    if (!derives(found.info(), info, delta))
        throw_corrupt("an object of a class that is not derived from the pointer's");
    const std::uint16_t open = found.number();
    const OpenType& type = open_type(open);
    if (type.place_one == nullptr) throw_corrupt("an object of an abstract class");
    return uses_[key] = {type.place_one, static_cast<std::uint32_t>(delta), open};
}

}  // namespace verbatim::objects
