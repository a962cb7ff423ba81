// Owned objects are those that owners were seen to lead to, with two bits for each 8 bytes of their
// memory. Two whole objects with virtual tables have two addresses. Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace verbatim::objects {

class OwnedObjects {
  public:
    enum class Met : std::uint8_t { first, again, by_sole_owner };
    // Notes an owner; how the object was met before. `is_sole`: it admits of no other owner.
    Met add(const void* object, bool is_sole) {
        const std::uint64_t granule = reinterpret_cast<std::uint64_t>(object) / 8;
        Page& page = page_of(granule / kGranules);
        const std::uint64_t bit = std::uint64_t{1} << granule % 64;
        std::uint64_t& met = page.met[granule % kGranules / 64];
        std::uint64_t& sole = page.sole[granule % kGranules / 64];
        const Met before = (met & bit) == 0    ? Met::first
                           : (sole & bit) == 0 ? Met::again
                                               : Met::by_sole_owner;
        met |= bit;
        if (is_sole) sole |= bit;
        return before;
    }

  private:
    static constexpr std::uint64_t kGranules = 512;
    struct Page {
        std::array<std::uint64_t, kGranules / 64> met{}, sole{};
    };
    Page& page_of(std::uint64_t number) {
        if (last_ == nullptr || number != number_) {
            std::unique_ptr<Page>& page = pages_[number];
            if (page == nullptr) page = std::make_unique<Page>();
            last_ = page.get();
            number_ = number;
        }
        return *last_;
    }

    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    Page* last_ = nullptr;
    std::uint64_t number_ = 0;
};

}  // namespace verbatim::objects
