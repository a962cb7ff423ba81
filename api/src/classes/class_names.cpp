#include "class_names.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {
namespace {

void check_base(const TypeInfo& type, const std::type_info& base, std::ptrdiff_t offset) {
    const bool is_described =
        std::any_of(type.parts.begin(), type.parts.end(), [&](const PartInfo& part) {
            return part.is_base && part.offset == static_cast<std::size_t>(offset) &&
                   part.type().id != nullptr && *part.type().id == base;
        });
    if (is_described) return;
    throw Error(Errc::unsupported, "class " + type.spelled(),
                "its base class " + readable_name(base) + " is not described",
                "name it in VERBATIM_DESCRIBE_DERIVED(Type, (Base, ...), member, ...)");
}

}  // namespace

bool may_be_told(std::string_view text, std::size_t most_bytes) noexcept {
    return text.size() <= most_bytes && std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
           });
}

std::string readable_name(const std::type_info& id) {
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(id.name(), nullptr, nullptr, nullptr), &std::free);
    return name == nullptr ? id.name() : name.get();
}

void check_bases(const TypeInfo& type) {
    if (type.id == nullptr) return;
    if (const auto* one = dynamic_cast<const abi::__si_class_type_info*>(type.id))
        return check_base(type, *one->__base_type, 0);
    const auto* many = dynamic_cast<const abi::__vmi_class_type_info*>(type.id);
    if (many == nullptr) return;
    for (unsigned i = 0; i < many->__base_count; ++i) {
        const abi::__base_class_type_info& base = many->__base_info[i];
        if (base.__is_virtual_p())
            throw Error(Errc::unsupported, "class " + type.spelled(),
                        "its base class " + readable_name(*base.__base_type) + " is virtual",
                        "derive from it without `virtual`");
        check_base(type, *base.__base_type, base.__offset());
    }
}

}  // namespace verbatim::objects
