// Packing into memory of this process: segments are built where they stay.
#include <verbatim/objects/operations/copying.hpp>

#include <cstring>

namespace verbatim::objects {
namespace {

// Staging needs little: of segments that could not be built in their place.
std::shared_ptr<Arena> staging_arena() {
    ArenaOptions options;
    options.name = "copies of graphs";
    options.segment_bytes = std::size_t{4} << 20;
    options.max_bytes = std::size_t{1} << 30;
    options.pages = PageChoice::base_4k;
    return std::make_shared<Arena>(options);
}

std::byte* open_in_block(void* owner, std::uint64_t segment, std::span<const Piece>) {
    auto& block = *static_cast<PrivateBlock*>(owner);
    block.grow_to((segment + 1) * kSegmentBytes);
    return block.data() + segment * kSegmentBytes;
}
void close_in_block(void*) noexcept {}

void put(PrivateBlock& block, Staging& staging) {
    block.grow_to(staging.cursor());
    for (const Piece& piece : staging.pieces())
        std::memcpy(block.data() + piece.offset, piece.from, piece.bytes);
    for (const Patch& patch : staging.patches())
        std::memcpy(block.data() + patch.offset, patch.data, patch.bytes);
}

}  // namespace

LocalTables::LocalTables() : packing(staging_arena()) {}

void ImageFacts::add(const Packing& packing) {
    const std::span more = packing.places();
    places.insert(places.end(), more.begin(), more.end());
    const std::span whole = packing.arrays();
    arrays.insert(arrays.end(), whole.begin(), whole.end());
}

void ImageFacts::add_classes(const Packing& packing) {
    if (packing.classes() == nullptr) return;
    for (const PolymorphicClass* const known : packing.classes()->classes()) {
        const Layout& layout = layout_of(known->info());
        classes.push_back({layout.fingerprint, known->info().spelled(), layout.text});
    }
}

void ImageFacts::clear() noexcept {
    places.clear();
    arrays.clear();
    classes.clear();
}

ImageFacts pack_into(PrivateBlock& block, Packing& packing) {
    const SegmentOpener opener{&open_in_block, &close_in_block, &block};
    packing.staging().set_opener(&opener);
    ImageFacts facts = run_whole(
        packing, [] {},
        [&](Staging& staging) {
            put(block, staging);
            staging.set_opener(&opener);  // a restart takes it away
        });
    packing.staging().set_opener(nullptr);
    return facts;
}

namespace {

std::string_view find_layout(const void* facts, std::uint64_t fingerprint) {
    for (const ClassFact& one : static_cast<const ImageFacts*>(facts)->classes)
        if (one.fingerprint == fingerprint) return one.layout;
    return {};
}

void tell_classes(const ImageFacts& facts, ToldClasses& told) {
    told.set_layouts(&facts, &find_layout);
    std::uint32_t number = 0;
    for (const ClassFact& one : facts.classes)
        if (!told.add(++number, one.fingerprint, one.name))
            Mending::corrupt("too many classes, or one without a name");
}

}  // namespace

void mend_at(std::byte* image, const ImageFacts& facts, Mending& mending) {
    if (!facts.classes.empty()) tell_classes(facts, mending.classes());
    mending.add_memory(0, image, facts.told.cursor);
    mending.add_records(facts.places, facts.arrays);
    mending.advance_to(facts.told);
    if (!mending.run()) Mending::corrupt("it ends before its end");
}

}  // namespace verbatim::objects
