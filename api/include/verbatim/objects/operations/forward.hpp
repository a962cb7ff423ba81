// Forwarding sends a received graph on as it came, without a walk over its objects. It sends a copy
// of the image that was kept before the receiver's walk changed it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/objects/operations/copying.hpp>
#include <verbatim/objects/operations/transfer.hpp>

namespace verbatim::objects {

// An image as its sender made it, and all that was told with it.
struct KeptImage {
    // Segments that must lie side by side at the next receiver as well.
    struct Run {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };
    // How far the sender's walk had come at a flush, and with how many records.
    struct Mark {
        Mending::Told told;
        std::size_t places = 0, arrays = 0;
    };

    const RootType* root = nullptr;
    bool is_acyclic = false;
    std::uint64_t objects = 0;
    ImageMemory memory;  // one block, in the arena from which connections send
    std::vector<Run> runs;
    std::vector<Mark> marks;
    ImageFacts facts;
};

// Stands in the place of a walk: the image is listed, a flush at a time. It must outlive this.
class Forwarding final : public Packing {
  public:
    Forwarding(PackTables& tables, const KeptImage& image);

  private:
    static bool run_all(Packing& packing);
    bool run_on();
    bool may_stop_at(std::uint64_t offset) const noexcept;
    void list_to(std::uint64_t end);
    void tell_to(const KeptImage::Mark& mark);

    const KeptImage& image_;
    std::size_t mark_ = 0, run_ = 0, place_ = 0, array_ = 0;  // not listed yet
};

}  // namespace verbatim::objects
