#include <verbatim/objects/composed/composed_verifier.hpp>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

void ComposedVerifying::validate() const {
    for (const ToValidate& check : to_validate_.span())
        if (!check.is_valid(check.object))
            throw Error(Errc::corrupt_message,
                        "received object of type " + check.type->info().spelled(),
                        "its validator does not accept it",
                        "the graph was dropped; nothing of it was handed out");
}

void refuse_composed(const TypeInfo& root) {
    throw Error(Errc::type_mismatch, "received object of type " + root.spelled(),
                "it was composed, and this program has no VERBATIM_COMPOSED for that type",
                "build both programs from the same definition");
}

std::uint64_t read_composed_head(ComposedMemory& memory) {
    ComposedHead head;
    if (memory.used < ComposedHead::kBytes)
        ComposedVerifying::corrupt("a composed message is cut short");
    std::memcpy(&head, memory.bytes, sizeof head);
    memory.address = head.address;
    return head.root;
}

}  // namespace verbatim::objects
