// Cloned classes are those that a clone has met, by the virtual tables of their objects. Threads:
// one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include <verbatim/objects/classes/polymorphic_class.hpp>
#include <verbatim/objects/classes/sent_classes.hpp>

namespace verbatim::objects {

class CloneCheck;
class Cloning;

// How a class clones its objects.
struct ClassCloning {
    // Memory as `delete` will free it; the object is made by Cloning::run().
    void* (*own)(Cloning&, const void* object) = nullptr;
    std::shared_ptr<void> (*share)(Cloning&, const void* object) = nullptr;
    void (*check)(CloneCheck&, const void* object) = nullptr;
};

class ClonedClasses {
  public:
    struct Known {
        const PolymorphicClass* of = nullptr;
        std::uint32_t delta = 0;  // of the pointer's target in the whole object
    };
    // Of the object that has a virtual table at this place. Throws Error(unsupported): its class is
    // not described, or cannot be cloned.
    Known find(const void* object) {
        const std::uint64_t table = SentClasses::table_of(object);
        if (table != table_) look_up(table);
        return last_;
    }

  private:
    void look_up(std::uint64_t table);

    std::uint64_t table_ = 0;  // of the last one
    Known last_;
    std::unordered_map<std::uint64_t, Known> tables_;
};

}  // namespace verbatim::objects
