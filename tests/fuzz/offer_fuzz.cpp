// What a peer may say of bytes that it lends. The first two bytes of the input say in which pieces
// they are read.
#include <cstring>

#include "fuzz_target.hpp"
#include "messages/lent_offer.hpp"

using namespace verbatim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const std::size_t most = 1 + static_cast<std::size_t>(input.number(2)) * 37;
    auto offer = LentOffer::parse(input.take(input.left()));
    if (!offer) return 0;
    fuzz::require(!offer->extents.empty() && offer->extents.size() <= LentOffer::kMostExtents);
    fuzz::require(offer->bytes != 0 && offer->bytes <= std::uint64_t{1} << 48);
    // A piece lies within one extent, and all of them together are the offer. The longest are
    // not read to their end.
    for (int pieces = 0; offer->left() != 0 && pieces < 1000; ++pieces) {
        const RemoteExtent piece = offer->rest(most);
        fuzz::require(piece.bytes != 0 && piece.bytes <= most && piece.bytes <= offer->left());
        bool lies_within = false;
        for (const RemoteExtent& extent : offer->extents)
            lies_within =
                lies_within || (piece.remote_key == extent.remote_key &&
                                piece.address - extent.address <= extent.bytes &&
                                piece.bytes <= extent.bytes - (piece.address - extent.address));
        fuzz::require(lies_within);
        offer->taken += piece.bytes;
    }
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    for (std::size_t count = 1; count <= LentOffer::kMostExtents; count *= 2) {
        std::vector<std::byte> seed(2 + sizeof(LentOffer::Head) + count * sizeof(RemoteExtent));
        seed[0] = static_cast<std::byte>(count);
        for (std::size_t i = 0; i < count; ++i) {
            const RemoteExtent extent{4096 * (i + 1), 100 * (i + 1), 77, 0};
            std::memcpy(seed.data() + 2 + sizeof(LentOffer::Head) + i * sizeof extent, &extent,
                        sizeof extent);
        }
        seeds.push_back(std::move(seed));
    }
    return seeds;
}
