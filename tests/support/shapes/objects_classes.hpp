// Tells a receiver's tables of the classes that a sender's have used: for walks without a
// connection.
#pragma once

#include <cstdint>
#include <memory>

#include <verbatim/objects/graph/open_walks.hpp>

namespace verbatim::test {

inline void tell_classes(objects::PackTables& from, objects::ToldClasses& to) {
    for (objects::SentClasses& sent = from.sent_classes(); !sent.are_told(); sent.set_told()) {
        const objects::TypeInfo& info = sent.next_to_tell().info();
        if (!to.add(sent.next_number(), objects::layout_of(info).fingerprint, info.spelled()))
            objects::Mending::corrupt("a class out of order");
    }
}

// All of them, for a receiver that was told of none.
inline std::shared_ptr<objects::ToldClasses> all_classes_of(objects::PackTables& from) {
    const auto told = std::make_shared<objects::ToldClasses>();
    std::uint32_t number = 0;
    for (const objects::PolymorphicClass* const sent : from.sent_classes().classes()) {
        const objects::TypeInfo& info = sent->info();
        if (!told->add(++number, objects::layout_of(info).fingerprint, info.spelled()))
            objects::Mending::corrupt("a class out of order");
    }
    return told;
}

}  // namespace verbatim::test
