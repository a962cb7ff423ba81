// What a receiver does with composed messages: an error, or objects that can be used as such
// objects are. The bytes of a message, with the address at which it was composed, are the input.
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include <verbatim/objects/composed/composed_verifier.hpp>
#include <verbatim/objects/composed/composition.hpp>

#include "fuzz_target.hpp"
#include "objects_image.hpp"

using namespace verbatim;

namespace {

struct Shelf {
    std::pmr::list<std::pmr::string> names;
    std::pmr::map<std::pmr::string, int> prices;
    std::pmr::multiset<std::uint16_t> sizes;
    std::pmr::unordered_map<std::uint32_t, std::pmr::string> words;
    std::pmr::unordered_multimap<std::pmr::string, std::uint8_t> tags;
    std::pmr::deque<std::uint64_t> numbers;
    std::pmr::forward_list<std::uint8_t> chain;
    std::pmr::vector<bool> flags;
    std::pmr::string* inner = nullptr;
    int* price = nullptr;
};
struct Part {
    std::variant<std::uint8_t, std::pmr::string, std::unique_ptr<Part>> one;
    std::optional<std::pmr::string> text;
    std::shared_ptr<Part> shared;
    std::pmr::vector<Part> parts;
    std::pmr::list<Part> list;
    Part* other = nullptr;
    std::string_view view;
    std::span<const Part> span;
};

// Objects of two sizes that lead to each other by pointers alone.
struct Spoke;
struct Ring {
    std::uint64_t value = 0;
    Ring* next = nullptr;
    Ring* other = nullptr;
    Spoke* spoke = nullptr;
};
struct Spoke {
    std::uint32_t value = 0;
    const Ring* ring = nullptr;
    std::uint64_t* number = nullptr;
};

// Arrays whose elements lead into each other's.
struct Side;
struct Corner {
    std::uint64_t value = 0;
    const Side* side = nullptr;
};
struct Side {
    Corner* from = nullptr;
    Corner* to = nullptr;
    Side* next = nullptr;
    std::uint64_t value = 0;
};
struct Plane {
    std::pmr::vector<Corner> corners;
    std::pmr::vector<Side> sides;
    std::pmr::vector<Corner*> order;
};

class Sum {
  public:
    void add(std::string_view text) {
        for (const char c : text) sum_ += static_cast<unsigned char>(c);
    }
    void add(std::uint64_t number) { sum_ += number; }
    std::uint64_t value() const { return sum_; }

  private:
    std::uint64_t sum_ = 0;
};

void read(Sum& sum, const Shelf& shelf) {
    for (const auto& name : shelf.names) sum.add(name);
    for (auto at = shelf.names.rbegin(); at != shelf.names.rend(); ++at) sum.add(*at);
    for (const auto& [key, value] : shelf.prices) {
        fuzz::require(&shelf.prices.find(key)->second == &value);
        sum.add(static_cast<std::uint64_t>(value));
    }
    for (const auto size : shelf.sizes) fuzz::require(shelf.sizes.count(size) > 0);
    for (const auto& [key, word] : shelf.words) {
        fuzz::require(&shelf.words.find(key)->second == &word);
        sum.add(word);
    }
    for (const auto& [key, tag] : shelf.tags) sum.add(key), sum.add(tag);
    for (const auto number : shelf.numbers) sum.add(number);
    for (const auto number : shelf.chain) sum.add(number);
    for (const bool flag : shelf.flags) sum.add(std::uint64_t{flag});
    if (shelf.inner != nullptr) sum.add(*shelf.inner);
    if (shelf.price != nullptr) sum.add(static_cast<std::uint64_t>(*shelf.price));
}
void read(Sum& sum, const Part& start) {
    std::set<const Part*> seen;
    std::vector<const Part*> left{&start};
    while (!left.empty()) {
        const Part* const part = left.back();
        left.pop_back();
        if (part == nullptr || !seen.insert(part).second) continue;
        left.push_back(part->shared.get());
        left.push_back(part->other);
        for (const Part& next : part->parts) left.push_back(&next);
        for (const Part& next : part->list) left.push_back(&next);
        for (const Part& next : part->span) left.push_back(&next);
        sum.add(part->view);
        if (part->text) sum.add(*part->text);
        if (const auto* text = std::get_if<std::pmr::string>(&part->one)) sum.add(*text);
        if (const auto* own = std::get_if<std::unique_ptr<Part>>(&part->one))
            left.push_back(own->get());
    }
}

void read(Sum& sum, const Ring& start) {
    std::set<const Ring*> seen;
    std::vector<const Ring*> left{&start};
    while (!left.empty()) {
        const Ring* const ring = left.back();
        left.pop_back();
        if (ring == nullptr || !seen.insert(ring).second) continue;
        sum.add(ring->value);
        left.push_back(ring->next);
        left.push_back(ring->other);
        if (ring->spoke == nullptr) continue;
        left.push_back(ring->spoke->ring);
        if (ring->spoke->number != nullptr) sum.add(*ring->spoke->number);
    }
}

void read(Sum& sum, const Corner* corner) {
    if (corner == nullptr) return;
    sum.add(corner->value);
    if (corner->side != nullptr) sum.add(corner->side->value);
}
void read(Sum& sum, const Plane& plane) {
    for (const Corner& corner : plane.corners) read(sum, &corner);
    for (const Side& side : plane.sides) {
        read(sum, side.from);
        read(sum, side.to);
        if (side.next != nullptr) sum.add(side.next->value);
    }
    for (const Corner* const corner : plane.order) read(sum, corner);
}

volatile std::uint64_t sink;

template <class T>
bool verify(std::span<const std::byte> bytes) {
    const test::Image image = test::Image::empty(bytes.size());
    if (!bytes.empty()) std::memcpy(image.bytes.get(), bytes.data(), bytes.size());
    try {
        objects::ComposedTables tables;
        objects::ComposedVerifier<T> verifier(tables);
        Sum sum;
        read(sum, *verifier.run({image.bytes.get(), bytes.size(), 0}));
        sink = sum.value();
        return true;
    } catch (const Error& error) {
        fuzz::require(error.code() == Errc::corrupt_message);
        return false;
    }
}

bool verify_any(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const auto type = input.number(1);
    const auto rest = input.take(input.left());
    if (type % 4 == 2) return verify<Ring>(rest);
    if (type % 4 == 3) return verify<Plane>(rest);
    return type % 4 == 0 ? verify<Shelf>(rest) : verify<Part>(rest);
}

// Composes a root, always at the same address if that is free.
template <class T>
class Composer {
  public:
    T& operator*() { return composition_.root(); }
    std::pmr::memory_resource* resource() { return composition_.resource(); }
    template <class U>
    U* make() {
        return composition_.template make<U>();
    }
    std::vector<std::byte> seed(std::uint8_t type) {
        objects::ComposedTables tables;
        const auto bytes = composition_.finish(tables);
        fuzz::require(bytes.has_value());
        const objects::ComposedMemory memory = bytes->memory;
        std::vector<std::byte> seed{std::byte{type}};
        seed.insert(seed.end(), memory.bytes, memory.bytes + memory.used);
        // What the sender accepts, the receiver does.
        fuzz::require(verify_any(reinterpret_cast<const std::uint8_t*>(seed.data()), seed.size()));
        return seed;
    }

  private:
    objects::Composition<T> composition_{std::uint64_t{1} << 20, SetAside::kFirst + (1 << 30)};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes <= 1 << 16) verify_any(data, bytes);
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    constexpr const char* kLong = "a name that is longer than others";
    std::vector<std::vector<std::byte>> seeds;
    {
        Composer<Shelf> composer;
        Shelf& shelf = *composer;
        for (const char* name : {"one", kLong, "three"}) {
            shelf.names.emplace_back(name);
            shelf.prices.emplace(name, 3);
            shelf.words.emplace(shelf.words.size() * 77, name);
        }
        shelf.tags.emplace("tag", std::uint8_t{1}), shelf.tags.emplace("tag", std::uint8_t{2});
        shelf.sizes = {4, 4, 5};
        for (std::uint64_t i = 0; i < 70; ++i) shelf.numbers.push_back(i);
        shelf.numbers.pop_front();
        shelf.chain = {7, 8};
        shelf.flags = {true, false, true};
        shelf.inner = &shelf.names.back();
        shelf.price = &shelf.prices.begin()->second;
        seeds.push_back(composer.seed(0));
    }
    seeds.push_back(Composer<Shelf>().seed(0));
    {
        Composer<Ring> composer;
        Ring* at = &*composer;
        for (std::uint64_t i = 0; i < 5; ++i) {
            at->value = i;
            at->other = i % 2 == 0 ? &*composer : at;
            at->spoke = composer.make<Spoke>();
            at->spoke->ring = at;
            at->spoke->number = i < 2 ? &at->value : composer.make<std::uint64_t>();
            at->next = composer.make<Ring>();
            at = at->next;
        }
        seeds.push_back(composer.seed(2));
    }
    {
        Composer<Plane> composer;
        Plane& plane = *composer;
        plane.corners.resize(70);
        plane.sides.resize(70);
        for (std::size_t i = 0; i < plane.sides.size(); ++i) {
            Corner* const corner = &plane.corners[i * 3 % 70];
            *corner = {i, &plane.sides[i * 11 % 70]};
            plane.sides[i] = {corner, &plane.corners[i], &plane.sides[i * 13 % 70], i};
            plane.order.push_back(corner);
        }
        seeds.push_back(composer.seed(3));
    }
    Composer<Part> composer;
    Part& part = *composer;
    part.parts.resize(3);
    part.list.emplace_back();
    for (Part& next : part.parts) objects::seat(next, composer.resource());
    part.parts[0].one = std::pmr::string(kLong, composer.resource());
    part.parts[1].one.emplace<2>(composer.make<Part>());
    part.parts[2].text.emplace(kLong, composer.resource());
    part.parts[2].view = std::string_view(*part.parts[2].text).substr(3, 5);
    part.other = &part.parts[1];
    part.span = std::span(part.parts).subspan(1);
    part.shared =
        std::allocate_shared<Part>(std::pmr::polymorphic_allocator<Part>(composer.resource()));
    part.shared->other = composer.make<Part>();
    seeds.push_back(composer.seed(1));
    return seeds;
}
