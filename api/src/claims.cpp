// The paths of the claims that are not taken for every object: new pages, large objects, objects
// beside the granules.
#include <verbatim/objects/graph/claims.hpp>

#include <algorithm>
#include <cstring>

namespace verbatim::objects {
namespace {

constexpr std::size_t kBlockPages = 64;

using FourWords = Claims::Word __attribute__((vector_size(16)));

// 64 words: kFree where the bit of `live` is set, else kFreed. Four at a time: of the pages of a
// small graph most is not allocated.
void write_words(Claims::Word* words, std::uint64_t live) noexcept {
    constexpr FourWords kBits{1, 2, 4, 8};
    if (live == 0 || live == ~std::uint64_t{0})
        return void(std::memset(words, live == 0 ? 0xff : 0, 64 * sizeof *words));
    for (std::size_t i = 0; i < 64; i += 4, live >>= 4) {
        const auto four = static_cast<Claims::Word>(live & 15);
        const auto freed = (FourWords{four, four, four, four} & kBits) == 0;
        std::memcpy(words + i, &freed, sizeof freed);
    }
}
// The page that is most likely begun next.
void fetch_page(const Claims::Word* words) noexcept {
    constexpr std::size_t kLineWords = 64 / sizeof *words;
    for (std::size_t i = 0; i < Claims::kPageGranules; i += kLineWords)
        __builtin_prefetch(words + i, 1);
}

static_assert(ClaimWords::kFree == 0 && ClaimWords::kFreed == ~Claims::Word{0});

}  // namespace

Claims::Claims(const Arena& arena) : arena_(arena), arena_words_(arena) {}

Claims::Word* Claims::new_words() {
    if (spare_.empty()) {
        blocks_.push_back(std::make_unique_for_overwrite<Word[]>(kBlockPages * kPageGranules));
        for (std::size_t i = kBlockPages; i > 0; --i)
            spare_.push_back(blocks_.back().get() + (i - 1) * kPageGranules);
    }
    Word* const words = spare_.back();
    spare_.pop_back();
    if (!spare_.empty()) fetch_page(spare_.back());
    return words;
}

Claims::Word* Claims::new_fine_words() {
    if (spare_fine_.empty()) {
        blocks_.push_back(std::make_unique_for_overwrite<Word[]>(kFineWords));
        spare_fine_.push_back(blocks_.back().get());
    }
    Word* const words = spare_fine_.back();
    spare_fine_.pop_back();
    std::memset(words, 0, kFineWords * sizeof *words);
    return words;
}

Claims::Region& Claims::region_of(std::uint64_t page) {
    const std::uint64_t number = page / kRegionPages;
    Region*& recent = recent_regions_[number % recent_regions_.size()];
    if (recent != nullptr && recent->number == number) return *recent;
    auto& region = regions_[number];
    if (region == nullptr) {
        region = std::make_unique<Region>();
        region->number = number;
    }
    recent = region.get();
    return *region;
}

Claims::Page* Claims::find_page(std::uint64_t page) noexcept {
    const std::uint64_t number = page / kRegionPages;
    Region*& recent = recent_regions_[number % recent_regions_.size()];
    if (recent == nullptr || recent->number != number) {
        const auto at = regions_.find(number);
        if (at == regions_.end()) return nullptr;
        recent = at->second.get();
    }
    return &recent->pages[page % kRegionPages];
}

void Claims::begin_words(std::uint64_t address, Word* words) const noexcept {
    if (!arena_.contains(reinterpret_cast<const void*>(address)))
        return void(std::memset(words, 0, kPageGranules * sizeof(Word)));
    const auto live = arena_.live_granules(address / kPageBytes * kPageBytes);
    for (std::size_t i = 0; i < live.size(); ++i) write_words(words + i * 64, live[i]);
}

Claims::Word* Claims::make_words(std::uint64_t address) {
    const std::uint64_t page = address / kPageBytes;
    Region& region = region_of(page);
    Page& at = region.pages[page % kRegionPages];
    if (at.words == nullptr) {
        if (at.first != kFree) return nullptr;  // one object covers it
        at.words = arena_words_.use(address);
        if (at.words == nullptr)
            at.words = new_words();
        else
            fetch_page(at.words + kPageGranules);
        touched_.emplace_back(&region, static_cast<std::uint32_t>(page % kRegionPages));
        begin_words(address, at.words);
    }
    if (!arena_words_.view().holds(address)) {
        last_page_ = page;
        last_words_ = at.words;
    }
    return at.words;
}

Claims::Word Claims::word_at(std::uint64_t address) noexcept {
    if (const Word* const words = this->words(address)) return words[granule(address)];
    const Page* const page = find_page(address / kPageBytes);
    if (page == nullptr) return kFree;
    if (page->words != nullptr) return page->words[granule(address)];
    return page->first == kFree ? kFree : page->first + static_cast<Word>(granule(address));
}

bool Claims::find(std::uint64_t address, std::uint64_t& offset) noexcept {
    if (has_apart_) {
        const Answer answer = look_apart(address, 1);
        offset = answer.offset;
        if (answer.found == Found::seen) return true;
    }
    const Word word = word_at(address);
    const bool is_known = ClaimWords::names_place(word);
    offset = is_known ? ClaimWords::offset_of(word, address) : 0;
    return is_known;
}

bool Claims::page_is_untouched(std::uint64_t page) noexcept {
    const Page* const at = find_page(page);
    return at == nullptr || (at->words == nullptr && at->first == kFree);
}

Claims::Answer Claims::look_up(std::uint64_t address, std::uint64_t bytes) {
    if (is_freed(address, bytes)) return {Found::freed, 0};
    if (has_apart_)
        if (const Answer answer = look_apart(address, bytes); answer.found != Found::free)
            return answer;
    const std::uint64_t start = address / kImageGranule * kImageGranule;
    for (std::uint64_t at = start; at < address + bytes; at += kImageGranule) {
        if (at % kPageBytes == 0 && page_is_untouched(at / kPageBytes)) {
            at += kPageBytes - kImageGranule;
            continue;
        }
        const bool first_is_free = at != start || address % kImageGranule == 0;
        if (first_is_free && ClaimWords::names_place(word_at(at))) return {Found::covers, 0};
    }
    return {};
}

// Of the objects that lie apart: does one hold, or touch, these bytes?
Claims::Answer Claims::look_apart(std::uint64_t address, std::uint64_t bytes) {
    const Answer in_table = apart_.empty() ? Answer{} : look_in_table(address, bytes);
    if (in_table.found != Found::free) return in_table;
    const std::uint64_t end = address + bytes;
    for (std::uint64_t at = address; at < end; at = round_to(at + 1, kPageBytes)) {
        const Page* const page = find_page(at / kPageBytes);
        if (page == nullptr || page->fine == nullptr) continue;
        const std::uint64_t first = at % kPageBytes / kFineBytes;
        // Also if the bytes go on behind its end: then they may be parts of one array.
        if (at == address && page->fine[first] != kFree)
            return {Found::seen,
                    (std::uint64_t{page->fine[first]} - 1) * kFineBytes + address % kFineBytes};
        const std::uint64_t behind = std::min(
            kFineWords, first + (end - at + at % kFineBytes + kFineBytes - 1) / kFineBytes);
        for (std::uint64_t i = first; i < behind; ++i)
            if (page->fine[i] != kFree) return {Found::covers, 0};
    }
    return {};
}

Claims::Answer Claims::look_in_table(std::uint64_t address, std::uint64_t bytes) const {
    auto at = apart_.upper_bound(address);
    if (at != apart_.begin()) {
        const auto before = std::prev(at);
        // Also if the bytes go on behind its end: then they may be parts of one array.
        if (address < before->second.end)
            return {Found::seen, before->second.offset + (address - before->first)};
    }
    if (at != apart_.end() && at->first < address + bytes) return {Found::covers, 0};
    return {};
}

void Claims::fill(Word* words, std::uint64_t first, std::uint64_t count, Word word) {
    for (std::uint64_t i = 0; i < count; ++i) words[first + i] = word + static_cast<Word>(i);
}

void Claims::claim_page(std::uint64_t page, Word first) {
    Region& region = region_of(page);
    Page& at = region.pages[page % kRegionPages];
    if (at.words != nullptr) return fill(at.words, 0, kPageGranules, first);
    at.first = first;
    touched_.emplace_back(&region, static_cast<std::uint32_t>(page % kRegionPages));
}

void Claims::claim(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset, Word tag) {
    const std::uint64_t end = address + bytes;
    if (address % kImageGranule != 0 || offset % kImageGranule != 0 ||
        word_at(address) == kShared || word_at(end - 1) == kShared)
        return claim_apart(address, bytes, offset);
    Word word = ClaimWords::plain(offset);
    for (std::uint64_t at = address; at < end;) {
        const std::uint64_t page_end = std::min(end, round_to(at + 1, kPageBytes));
        if (page_end - at == kPageBytes) {
            claim_page(at / kPageBytes, word);
        } else if (Word* const words = words_or_make(at)) {
            fill(words, granule(at), (page_end - at + kImageGranule - 1) / kImageGranule, word);
            if (at == address) words[granule(at)] = ClaimWords::tagged(word, tag);
        }
        word += static_cast<Word>((page_end - at) / kImageGranule);
        at = page_end;
    }
}

// Its granules are marked so that nobody takes them for free. A granule that one neighbour owns
// stays that neighbour's: those are looked up by their words first.
void Claims::claim_apart(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset) {
    has_apart_ = true;
    const std::uint64_t end = address + bytes;
    for (std::uint64_t at = address / kImageGranule * kImageGranule; at < end; at += kImageGranule)
        if (Word* const words = words_or_make(at); words != nullptr && words[granule(at)] == kFree)
            words[granule(at)] = kShared;
    if (address % kFineBytes != 0 || bytes % kFineBytes != 0 || offset % kFineBytes != 0 ||
        (offset + bytes) / kFineBytes >= kShared) {
        apart_[address] = {end, offset};
        return;
    }
    auto word = static_cast<Word>(offset / kFineBytes + 1);
    for (std::uint64_t at = address; at < end;) {
        const std::uint64_t page_end = std::min(end, round_to(at + 1, kPageBytes));
        const std::uint64_t count = (page_end - at) / kFineBytes;
        Page& page = *find_page(at / kPageBytes);  // there since it has words
        if (page.fine == nullptr) page.fine = new_fine_words();
        fill(page.fine, at % kPageBytes / kFineBytes, count, word);
        word += static_cast<Word>(count);
        at = page_end;
    }
}

void Claims::clear() noexcept {
    for (const auto& [region, index] : touched_) {
        Page& page = region->pages[index];
        const std::uint64_t address = (region->number * kRegionPages + index) * kPageBytes;
        if (page.words != nullptr && !arena_words_.leave(address, page.words))
            spare_.push_back(page.words);
        if (page.fine != nullptr) spare_fine_.push_back(page.fine);
        page = {};
    }
    arena_words_.trim();
    last_page_ = kNoPage;
    touched_.clear();
    has_apart_ = false;
    apart_.clear();
}

}  // namespace verbatim::objects
