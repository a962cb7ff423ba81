// Tells a receiver's tables of the classes that a sender's have used: for walks without a connection.
#pragma once

#include <verbatim/objects/graph/open_walks.hpp>

namespace verbatim::test {

inline void tell_classes(objects::PackTables& from, objects::ToldClasses& to) {
    for (objects::SentClasses& sent = from.sent_classes(); !sent.are_told(); sent.set_told()) {
        const objects::TypeInfo& info = sent.next_to_tell().info();
        if (!to.add(sent.next_number(), objects::layout_of(info).fingerprint, info.spelled()))
            objects::Mending::corrupt("a class out of order");
    }
}

}  // namespace verbatim::test
