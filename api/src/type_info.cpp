// Layouts as text, their fingerprint, their first difference; and which objects lie inside which.
#include <verbatim/objects/type_info.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <xxhash.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/libstdcxx.hpp>

#include "classes/class_names.hpp"

namespace verbatim::objects {
namespace {

// What its parts ask of a type.
std::size_t natural_alignment(const TypeInfo& type) {
    std::size_t alignment = 1;
    for (const PartInfo& part : type.parts) alignment = std::max(alignment, part.type().alignment);
    return alignment;
}

// Every byte of a described type must belong to a member or be padding that alignment explains.
// alignas() of a member is not known, but that some member has it is.
void check_complete(const TypeInfo& type) {
    if (type.is_polymorphic) check_bases(type);
    if (type.is_empty) return;
    const bool is_over_aligned = type.alignment > natural_alignment(type);
    auto parts = type.parts;
    std::sort(parts.begin(), parts.end(),
              [](const PartInfo& a, const PartInfo& b) { return a.offset < b.offset; });
    std::size_t end = 0;
    const auto gap = [&](std::size_t next, std::size_t alignment) {
        if (next < end + alignment) return;
        throw Error(Errc::unsupported, "type " + type.spelled(),
                    fmt::format("no described member covers its bytes {} to {}", end, next),
                    "list every data member in VERBATIM_DESCRIBE");
    };
    for (const PartInfo& part : parts) {
        const bool may_be_aligned = is_over_aligned && part.offset % type.alignment == 0;
        gap(part.offset, may_be_aligned ? type.alignment : part.type().alignment);
        end = std::max(end, part.offset + part.type().bytes);
    }
    gap(type.bytes, type.alignment);
}

class LayoutWriter {
  public:
    std::string write(const TypeInfo& root) {
        text_ = fmt::format("abi {}, {}-byte pointers\nroot {}\n", kLibraryAbi, sizeof(void*),
                            root.spelled());
        add(root);
        while (!pending_.empty()) {
            const TypeInfo& type = *pending_.back();
            pending_.pop_back();
            describe(type);
        }
        return std::move(text_);
    }

  private:
    // Queues a class for description; looks through the types that have no members of their own.
    void add(const TypeInfo& type) {
        if (!seen_.insert(&type).second) return;
        if (type.is_class) return pending_.push_back(&type);
        for (const TypeInfoFunction next : types_next_to(type)) add(next());
    }
    static std::vector<TypeInfoFunction> types_next_to(const TypeInfo& type) {
        std::vector<TypeInfoFunction> next;
        for (const PartInfo& part : type.parts) next.push_back(part.type);
        if (type.element != nullptr) next.push_back(type.element);
        next.insert(next.end(), type.choices.begin(), type.choices.end());
        next.insert(next.end(), type.targets.begin(), type.targets.end());
        return next;
    }

    void describe(const TypeInfo& type) {
        check_complete(type);
        text_ += fmt::format("type {}{}\n", type.spelled(), type.is_dynamic ? ", or derived" : "");
        for (std::size_t i = 0; i < type.parts.size(); ++i) {
            const PartInfo& part = type.parts[i];
            text_ +=
                fmt::format("  field {}{}{} at {}: {}, {} bytes\n", i, part.name.empty() ? "" : " ",
                            part.name, part.offset, part.type().spelled(), part.type().bytes);
            add(part.type());
        }
        text_ += fmt::format("  end at {}, alignment {}\n", type.bytes, type.alignment);
    }

    std::string text_;
    std::set<const TypeInfo*> seen_;
    std::vector<const TypeInfo*> pending_;
};

// The next line of a text, which is shortened by it.
std::string_view take_line(std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

const PartInfo* part_at(const TypeInfo& type, std::uint64_t delta) noexcept {
    for (const PartInfo& part : type.parts)
        if (delta >= part.offset && delta < part.offset + part.type().bytes) return &part;
    return nullptr;
}

std::string_view trimmed(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return line.empty() ? "nothing more" : line;
}

struct Known {
    const TypeInfo* type = nullptr;
    Layout layout;
};

const Known& known_layout(const TypeInfo& root) {
    static std::mutex mutex;
    static std::map<const TypeInfo*, Known> layouts;
    const std::lock_guard lock(mutex);
    Known& known = layouts[&root];
    if (known.layout.text.empty()) {
        verify_library_layout();
        known.type = &root;
        known.layout.text = layout_text(root);
        known.layout.fingerprint = XXH3_64bits(known.layout.text.data(), known.layout.text.size());
    }
    return known;
}

}  // namespace

const TypeInfo& make_info(std::atomic<const TypeInfo*>& made, TypeInfo (*make)(),
                          const TypeFacts& facts) {
    // Never destroyed: objects with static storage may be sent or saved when the program ends.
    static auto& infos = *new std::deque<TypeInfo>;
    static std::mutex mutex;
    TypeInfo info = make();  // which may ask for other infos
    static_cast<TypeFacts&>(info) = facts;
    const std::lock_guard lock(mutex);
    if (const TypeInfo* const other = made.load(std::memory_order_relaxed)) return *other;
    const TypeInfo& kept = infos.emplace_back(std::move(info));
    made.store(&kept, std::memory_order_release);
    return kept;
}

TypeInfo info_of_reference(TypeInfoFunction target) {
    TypeInfo info;
    info.targets.push_back(target);
    return info;
}

TypeInfo info_of_part(TypeInfoFunction part, std::string_view name, std::size_t offset) {
    TypeInfo info;
    add_part(info, name, offset, part);
    return info;
}

void add_part(TypeInfo& info, std::string_view name, std::size_t offset, TypeInfoFunction type,
              bool is_base) {
    info.parts.push_back({std::string(name), offset, type, is_base});
}

std::string layout_text(const TypeInfo& root) { return LayoutWriter().write(root); }

const Layout& layout_of(const TypeInfo& root) {
    // Without a lock where the type was asked for before, most often.
    static std::array<std::atomic<const Known*>, 64> recent{};
    auto& slot = recent[reinterpret_cast<std::uintptr_t>(&root) / sizeof(TypeInfo) % recent.size()];
    const Known* known = slot.load(std::memory_order_acquire);
    if (known == nullptr || known->type != &root) {
        known = &known_layout(root);
        slot.store(known, std::memory_order_release);
    }
    return known->layout;
}

std::string first_difference(std::string_view sender, std::string_view receiver,
                             std::string_view sender_name, std::string_view receiver_name) {
    std::string_view owner = "the root";
    while (!sender.empty() || !receiver.empty()) {
        const auto ours = take_line(sender), theirs = take_line(receiver);
        if (ours != theirs)
            return fmt::format("first difference in {}: {} has \"{}\", {} \"{}\"", owner,
                               sender_name, trimmed(ours), receiver_name, trimmed(theirs));
        if (ours.starts_with("type ")) owner = ours.substr(5);
    }
    return "the layouts are equal";
}

bool derives(const TypeInfo& derived, const TypeInfo& base, std::uint64_t delta) noexcept {
    if (delta == 0 && is_same(derived, base)) return true;
    for (const PartInfo& part : derived.parts)
        if (part.is_base && delta >= part.offset && derives(part.type(), base, delta - part.offset))
            return true;
    return false;
}

const TypeInfo& virtual_table_info() {
    static const TypeInfo info = [] {
        TypeInfo made;
        made.spelled = [] { return std::string("virtual table"); };
        made.bytes = made.alignment = sizeof(void*);
        return made;
    }();
    return info;
}

Held held(const ObjectArray& outer, std::uint64_t delta, const TypeInfo& inner,
          std::uint64_t inner_count) noexcept {
    Held answer = Held::always;
    const TypeInfo* type = &outer.type;
    std::uint64_t count = outer.count;
    const std::byte* at = outer.bytes;  // the first of `count` objects of `type`
    // Each round goes one type further in; types nest finitely, so this ends.
    while (true) {
        const std::uint64_t index = delta / type->bytes;
        if (index >= count) return Held::no;
        delta -= index * type->bytes;
        at += index * type->bytes;
        if (delta == 0 && is_same(*type, inner))
            return inner_count <= count - index ? answer : Held::no;
        const TypeInfo* const array = type;
        count = 1;
        if (type->element != nullptr) {
            count = array->count;
            type = &type->element();
        } else if (!type->choices.empty()) {
            const std::size_t alive = type->alive(at);
            if (alive >= type->choices.size()) return Held::no;
            answer = Held::now;
            type = &type->choices[alive]();
        } else {
            const PartInfo* const part = part_at(*type, delta);
            if (part == nullptr) return Held::no;
            delta -= part->offset;
            at += part->offset;
            type = &part->type();
        }
    }
}

}  // namespace verbatim::objects
