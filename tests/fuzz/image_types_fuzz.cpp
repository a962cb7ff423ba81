// What a receiver does with images of containers, owners, views, marked and polymorphic classes.
// What is accepted must be usable as such objects are: read to the last element, and searched.
#include <atomic>
#include <bitset>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "fuzz_target.hpp"
#include "image_input.hpp"
#include "objects_image.hpp"
#include "shapes/objects_shapes.hpp"

using namespace verbatim;

namespace {

struct Shelf {
    std::list<std::string> names;
    std::map<std::string, int> prices;
    std::multiset<std::uint16_t> sizes;
    std::unordered_map<std::uint32_t, std::string> words;
    std::unordered_multimap<std::string, std::uint8_t> tags;
    std::deque<std::uint64_t> numbers;
    std::forward_list<std::uint8_t> chain;
    std::vector<bool> flags;
    std::priority_queue<std::uint16_t> heap;
    std::stack<std::string> stack;
    std::filesystem::path path;
    std::string* inner = nullptr;  // one of the names, or of the words
    int* price = nullptr;
};
struct Owner {
    std::shared_ptr<Owner> shared;
    std::weak_ptr<Owner> weak;
    std::variant<std::uint8_t, std::string, std::unique_ptr<Owner>> one;
    std::tuple<bool, std::string> two;
    std::bitset<70> bits;
    std::atomic<bool> is_set = false;
    std::vector<std::reference_wrapper<std::bitset<70>>> others;
};
VERBATIM_DESCRIBE(Owner, shared, weak, one, two, bits, is_set, others)
struct View {
    std::vector<std::string> texts;
    std::vector<std::uint32_t> numbers;
    std::string_view view;
    std::span<const std::uint32_t> span;
    const char* text = nullptr;
    std::vector<std::string_view> views;
};
// Counted pointers, a member that stays behind, a validator.
struct Marked {
    std::uint16_t size = 0;
    const std::uint32_t* values = nullptr;
    std::unique_ptr<std::string[]> names;
    signed char name_count = 0;
    std::optional<std::string> cache;
    std::uint32_t low = 0, high = 0;
    Marked* next = nullptr;
};
bool is_ordered(const Marked& marked) {
    return marked.low <= marked.high && (marked.next == nullptr || marked.next->low <= 1000);
}
VERBATIM_DESCRIBE(Marked, size, values, names, name_count, cache, low, high, next)
VERBATIM_COUNTED(Marked, (values, size), (names, name_count))
VERBATIM_TRANSIENT(Marked, cache)
VERBATIM_VALIDATE(Marked, is_ordered)

struct Kin : std::enable_shared_from_this<Kin> {
    std::pmr::string name;
    std::shared_ptr<Kin> one;
    std::vector<std::weak_ptr<Kin>> others;
    std::pmr::map<std::uint16_t, std::pmr::vector<std::uint8_t>> map;
    std::pmr::list<std::pmr::string> list;
    std::pmr::unordered_map<std::pmr::string, std::uint16_t> hashes;
    std::pmr::deque<std::uint16_t> queue;
};
VERBATIM_DESCRIBE_DERIVED(Kin, (std::enable_shared_from_this<Kin>), name, one, others, map, list,
                          hashes, queue)

// The walk meets the badge first.
struct Crowd {
    std::uint64_t before = 0;
    std::vector<std::unique_ptr<shapes::Shape>> owned;
    std::vector<shapes::Shape*> pointers;
    shapes::Named* named = nullptr;
};

class Sum {
  public:
    void add(std::string_view text) {
        for (const char c : text) sum_ += static_cast<unsigned char>(c);
    }
    template <class N>
    requires(std::is_arithmetic_v<N>) void add(N number) {
        sum_ += static_cast<std::uint64_t>(number);
    }
    std::uint64_t value() const { return sum_; }

  private:
    std::uint64_t sum_ = 0;
};

void read(Sum& sum, const Shelf& shelf) {
    for (const auto& name : shelf.names) sum.add(name);
    for (auto at = shelf.names.rbegin(); at != shelf.names.rend(); ++at) sum.add(*at);
    for (const auto& [key, value] : shelf.prices) {
        fuzz::require(&shelf.prices.find(key)->second == &value);
        sum.add(value);
    }
    for (const auto size : shelf.sizes) fuzz::require(shelf.sizes.count(size) > 0);
    for (const auto& [key, word] : shelf.words) {
        fuzz::require(&shelf.words.find(key)->second == &word);
        sum.add(word);
    }
    for (const auto& [key, tag] : shelf.tags) sum.add(key), sum.add(tag);
    for (const auto number : shelf.numbers) sum.add(number);
    for (const auto number : shelf.chain) sum.add(number);
    for (const bool flag : shelf.flags) sum.add(flag);
    for (auto heap = shelf.heap; !heap.empty(); heap.pop()) {
        const auto top = heap.top();
        fuzz::require(top <= shelf.heap.top());
        sum.add(top);
    }
    for (const auto& part : shelf.path) sum.add(part.native());
    fuzz::require(shelf.path == std::filesystem::path(shelf.path.native()));
    for (auto stack = shelf.stack; !stack.empty(); stack.pop()) sum.add(stack.top());
    fuzz::require(shelf.prices.size() == static_cast<std::size_t>(std::distance(
                                             shelf.prices.begin(), shelf.prices.end())));
    if (shelf.inner != nullptr) sum.add(*shelf.inner);
    if (shelf.price != nullptr) sum.add(*shelf.price);
}
void read(Sum& sum, const Owner& start) {
    std::set<const Owner*> seen;
    std::vector<const Owner*> left{&start};
    while (!left.empty()) {
        const Owner* const owner = left.back();
        left.pop_back();
        if (owner == nullptr || !seen.insert(owner).second) continue;
        left.push_back(owner->shared.get());
        left.push_back(owner->weak.lock().get());
        if (const auto* text = std::get_if<std::string>(&owner->one)) sum.add(*text);
        if (const auto* other = std::get_if<std::unique_ptr<Owner>>(&owner->one))
            left.push_back(other->get());
        sum.add(std::get<0>(owner->two)), sum.add(std::get<1>(owner->two));
        sum.add(owner->bits.count()), sum.add(owner->is_set.load());
        for (const auto& other : owner->others) sum.add(other.get().count());
    }
}
void read(Sum& sum, const Marked& start) {
    std::set<const Marked*> seen;
    for (const Marked* at = &start; at != nullptr && seen.insert(at).second; at = at->next) {
        fuzz::require(is_ordered(*at) && !at->cache);
        for (int i = 0; at->values != nullptr && i < at->size; ++i) sum.add(at->values[i]);
        for (int i = 0; at->names && i < at->name_count; ++i)
            sum.add(at->names[static_cast<std::size_t>(i)]);
    }
}
void read_parts(Sum& sum, const Kin& kin) {
    sum.add(kin.name);
    for (const auto& [key, bytes] : kin.map) {
        fuzz::require(kin.map.count(key) == 1);
        for (const auto byte : bytes) sum.add(byte);
    }
    for (const auto& text : kin.list) sum.add(text);
    for (const auto& [key, number] : kin.hashes) {
        fuzz::require(&kin.hashes.find(key)->second == &number);
        sum.add(key);
    }
    for (const auto number : kin.queue) sum.add(number);
}
void read(Sum& sum, const Kin& start) {
    std::set<const Kin*> seen;
    std::vector<const Kin*> left{&start};
    while (!left.empty()) {
        const Kin* const kin = left.back();
        left.pop_back();
        if (kin == nullptr || !seen.insert(kin).second) continue;
        read_parts(sum, *kin);
        const auto self = kin->weak_from_this().lock();
        fuzz::require(self == nullptr || self.get() == kin);
        left.push_back(kin->one.get());
        for (const auto& other : kin->others) left.push_back(other.lock().get());
    }
}
void read(Sum& sum, const View& view) {
    for (const auto& text : view.texts) sum.add(text);
    for (const auto number : view.span) sum.add(number);
    sum.add(view.view);
    if (view.text != nullptr) sum.add(std::string_view(view.text));
    for (const auto part : view.views) sum.add(part);
}

// Every object is called by the table of its class, through each of its bases.
void read(Sum& sum, const Crowd& crowd) {
    std::set<const shapes::Shape*> seen;
    std::vector<const shapes::Shape*> left(crowd.pointers.begin(), crowd.pointers.end());
    for (const auto& shape : crowd.owned) left.push_back(shape.get());
    if (crowd.named != nullptr) sum.add(crowd.named->name());
    while (!left.empty()) {
        const shapes::Shape* const shape = left.back();
        left.pop_back();
        if (shape == nullptr || !seen.insert(shape).second) continue;
        const auto* const group = dynamic_cast<const shapes::Group*>(shape);
        if (group != nullptr)
            for (const auto& part : group->parts) left.push_back(part.get());
        else
            sum.add(shape->tell());
        if (const auto* const named = dynamic_cast<const shapes::Named*>(shape))
            sum.add(named->name());
    }
}

volatile std::uint64_t sink;

template <class T>
void mend(const test::Image& original) {
    test::Image image = original.copy();
    try {
        Sum sum;
        read(sum, *image.mend<T>());
        sink = sum.value();
    } catch (const Error& error) {
        fuzz::require(error.code() == Errc::corrupt_message ||
                      (original.classes != nullptr && error.code() == Errc::type_mismatch));
    }
}

template <class T>
void add(std::vector<std::vector<std::byte>>& seeds, std::uint8_t type, const T& root) {
    for (const std::uint64_t flush_bytes : {std::uint64_t{1}, std::uint64_t{1} << 40})
        seeds.push_back(fuzz::image_seed(type, root, flush_bytes));
}

void add_marked(std::vector<std::vector<std::byte>>& seeds) {
    const std::vector<std::uint32_t> values{1, 2, 3};
    Marked marked, other;
    marked.size = 3;
    marked.values = other.values = values.data();
    other.size = 2;
    marked.names = std::make_unique<std::string[]>(2);
    marked.names[1] = "a name that is longer than others";
    marked.name_count = 2;
    marked.cache = "a text that does not travel with its class";
    marked.high = 7;
    marked.next = &other;
    other.next = &marked;
    add(seeds, 3, marked);
    add(seeds, 3, Marked{});
}
void add_kin(std::vector<std::vector<std::byte>>& seeds) {
    const auto kin = std::make_shared<Kin>(), other = std::make_shared<Kin>();
    kin->name = "a name that is longer than others";
    kin->one = other;
    kin->others = {other, kin, {}};
    kin->map[3] = {1, 2, 3};
    kin->map[1] = {};
    kin->list = {"one", "a text that is longer than others"};
    kin->hashes = {{"a", std::uint16_t{1}}, {"b", std::uint16_t{2}}};
    kin->queue = {1, 2, 3};
    other->others = {kin};
    add(seeds, 4, *kin);
}
void use_crowd(auto&& use) {
    shapes::Badge badge;
    badge.text = "a text that is longer than fifteen";
    auto group = std::make_unique<shapes::Group>();
    group->parts.push_back(std::make_unique<shapes::Circle>(2));
    group->parts.push_back(std::make_unique<shapes::Even>(4));
    Crowd crowd;
    crowd.owned.push_back(std::make_unique<shapes::Circle>(1));
    crowd.owned.push_back(std::move(group));
    crowd.owned.push_back(std::make_unique<shapes::Shape>());
    crowd.pointers = {crowd.owned[0].get(), &badge, crowd.owned[2].get()};
    crowd.named = &badge;
    use(crowd);
}
// As the peer that sent the seeds has told of them, and of one that is not known here.
std::shared_ptr<objects::ToldClasses> crowd_classes() {
    static const auto classes = [] {
        std::shared_ptr<objects::ToldClasses> made;
        use_crowd([&](const Crowd& crowd) { made = test::image_of(crowd).classes; });
        for (std::uint32_t number = 1; number < 16; ++number)
            (void)made->add(number, 1, "elsewhere::Square");
        return made;
    }();
    return classes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes > 1 << 16) return 0;
    fuzz::Input input(data, bytes);
    const auto type = input.number(1);
    test::Image image = fuzz::image_of(input);
    if (type % 6 == 0) mend<Shelf>(image);
    if (type % 6 == 1) mend<Owner>(image);
    if (type % 6 == 2) mend<View>(image);
    if (type % 6 == 3) mend<Marked>(image);
    if (type % 6 == 4) mend<Kin>(image);
    if (type % 6 == 5) {
        image.classes = crowd_classes();
        mend<Crowd>(image);
    }
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    Shelf shelf{{"one", "a name that is longer than others", "three"},
                {{"a", 1}, {"b", 2}, {"a price of a longer name", 3}},
                {4, 4, 5},
                {{1, "x"}, {2, "a word that is longer than others"}, {77, ""}},
                {{"tag", std::uint8_t{1}}, {"tag", std::uint8_t{2}}},
                {1, 2, 3},
                {7, 8},
                {true, false, true},
                std::priority_queue<std::uint16_t>({}, std::vector<std::uint16_t>{9, 7, 8, 1}),
                std::stack<std::string>({"one", "a text that is longer than others"}),
                "/srv/a name that is longer than others/end/"};
    shelf.inner = &shelf.words.at(2);
    shelf.price = &shelf.prices.at("b");
    add(seeds, 0, shelf);
    add(seeds, 0, Shelf{});
    const auto shared = std::make_shared<Owner>();
    shared->weak = shared;
    shared->one = std::string("a text of a variant that is long");
    Owner owner;
    owner.shared = shared;
    owner.weak = shared;
    owner.one = std::make_unique<Owner>();
    owner.two = {true, "two"};
    owner.bits.set(69);
    owner.is_set = true;
    owner.others = {shared->bits, owner.bits, shared->bits};
    add(seeds, 1, owner);
    View view{{"a text that is longer than fifteen", "short"}, {1, 2, 3, 4}, {}, {}, nullptr, {}};
    view.view = std::string_view(view.texts[0]).substr(3, 9);
    view.span = std::span(view.numbers).subspan(1, 2);
    view.text = view.texts[0].c_str() + 4;
    view.views = {view.texts[1], std::string_view(view.texts[0]).substr(5)};
    add(seeds, 2, view);
    add_marked(seeds);
    add_kin(seeds);
    use_crowd([&](const Crowd& crowd) { add(seeds, 5, crowd); });
    return seeds;
}
