#include "kinds_maker.hpp"

namespace verbatim::kinds {

std::string Dice::text() { return std::string(below(50), static_cast<char>('a' + below(26))); }

Values Dice::values() {
    Values values;
    values.flag = one_in(2);
    values.letter = static_cast<char>('a' + below(26));
    values.small = static_cast<std::int16_t>(number());
    values.large = below(1u << 30) << 30;
    values.real = static_cast<float>(number()) / 8;
    values.color = static_cast<Color>(below(3));
    values.complex = {values.real, static_cast<float>(number())};
    values.duration = std::chrono::nanoseconds(number());
    values.when += std::chrono::seconds(number());
    values.numbers[below(3)] = static_cast<std::int16_t>(number());
    values.grid[below(2)][below(3)] = number();
    values.bits.set(below(70));
    values.pair = {number(), one_in(2)};
    values.tuple = {'t', static_cast<double>(number()), below(100)};
    if (one_in(2)) values.maybe = number();
    if (one_in(3)) {
        values.flags.resize(below(100));
        for (std::size_t i = 0; i < values.flags.size(); i += 3) values.flags[i] = true;
    }
    return values;
}

NetworkMaker::NetworkMaker(std::uint64_t seed, std::pmr::memory_resource& memory, int left_behind)
    : dice_(seed), memory_(memory), left_behind_(left_behind) {
    make_nodes(dice_.one_in(32) ? 60 : 8);
    for (Node* node : all_) {
        fill_lists(*node);
        fill_maps(*node);
        fill_owners(*node);
        pool_leaves(*node);
    }
    for (std::size_t i = dice_.below(4); i > 0; --i) {
        couples_.push_back(std::make_unique<Couple>(Couple{dice_.leaf(), dice_.leaf()}));
        leaves_.insert(leaves_.end(), {&couples_.back()->one, &couples_.back()->two});
    }
    dice_.fill(network_.texts, [&] { return dice_.text(); });
    for (const std::string& text : network_.texts) texts_.push_back(&text);
    for (Node* node : all_) {
        fill_texts(*node);
        fill_table(*node);
        fill_links(*node);
    }
    network_.first = some_leaf();
    network_.start = some_node();
}

// Rings of owners would never end.
NetworkMaker::~NetworkMaker() {
    for (Node* node : all_) node->owners.shared.reset();
}

Pmr NetworkMaker::empty_pmr() {
    std::pmr::memory_resource* const memory = &memory_;
    return {std::pmr::string(memory),
            std::pmr::vector<Leaf>(memory),
            std::pmr::list<std::pmr::string>(memory),
            std::pmr::map<int, Node*>(memory),
            std::pmr::unordered_map<int, int>(memory),
            std::pmr::deque<int>(memory)};
}

std::shared_ptr<Node> NetworkMaker::new_node() {
    const std::pmr::polymorphic_allocator<Node> in_arena(&memory_);
    return dice_.one_in(2) ? std::allocate_shared<Node>(in_arena, empty_node())
                           : std::make_shared<Node>(empty_node());
}

void NetworkMaker::make_nodes(std::size_t most) {
    for (std::size_t i = dice_.below(4); i > 0; --i) network_.vertices.push_back(empty_node());
    dice_.fill(network_.listed, [&] { return empty_node(); });
    if (dice_.one_in(3)) dice_.fill(network_.queued, [&] { return empty_node(); });
    if (dice_.one_in(3))
        for (std::size_t i = dice_.below(4); i > 0; --i)
            network_.mapped.emplace(dice_.number(), empty_node());
    for (Node& node : network_.vertices) inner_.push_back(&node);
    for (Node& node : network_.listed) inner_.push_back(&node);
    for (Node& node : network_.queued) inner_.push_back(&node);
    for (auto& [key, node] : network_.mapped) inner_.push_back(&node);
    all_ = inner_;
    for (std::size_t i = dice_.below(most); i > 0; --i)
        all_.push_back(nodes_.emplace_back(new_node()).get());
    for (std::size_t i = all_.size() / 4; i > 0; --i) {
        Node& owner = *all_[i];
        owner.owners.owned = std::make_unique<Node>(empty_node());
        all_.push_back(owner.owners.owned.get());
    }
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i]->id = static_cast<int>(i);
}

void NetworkMaker::fill_lists(Node& node) {
    const auto leaf = [&] { return dice_.leaf(); };
    const auto text = [&] { return dice_.text(); };
    node.values = dice_.values();
    dice_.fill(node.lists.list, leaf);
    if (dice_.one_in(3))
        for (std::size_t i = dice_.below(4); i > 0; --i) node.lists.chain.push_front(text());
    dice_.fill(node.lists.queue, leaf);
    dice_.fill(node.lists.rows, [&] { return std::vector<int>(dice_.below(9), dice_.number()); });
    node.pmr.text = text();
    dice_.fill(node.pmr.leaves, leaf);
    dice_.fill(node.pmr.list, [&] { return std::pmr::string(text(), &memory_); });
    dice_.fill(node.pmr.queue, [&] { return dice_.number(); });
}

void NetworkMaker::fill_maps(Node& node) {
    const auto text = [&] { return dice_.text(); };
    const auto number = [&] { return dice_.number(); };
    const auto keyed = [&] { return std::pair<const int, Leaf>(number(), dice_.leaf()); };
    const auto named = [&] { return std::pair<const std::string, int>(text(), number()); };
    dice_.fill(node.maps.map, keyed);
    dice_.fill(node.maps.multimap, named);
    dice_.fill(node.maps.set, text);
    dice_.fill(node.maps.multiset, number);
    if (dice_.one_in(2)) return;
    const auto add = [&](auto& container, auto make) {
        for (std::size_t i = dice_.below(6); i > 0; --i) container.insert(make());
    };
    add(node.hashes.map, keyed);
    add(node.hashes.multimap, named);
    add(node.hashes.set, text);
    add(node.hashes.multiset, [&] { return static_cast<std::uint16_t>(dice_.below(4)); });
    add(node.pmr.hashes, [&] { return std::pair<const int, int>(number(), number()); });
}

void NetworkMaker::fill_owners(Node& node) {
    Owners& owners = node.owners;
    dice_.fill(owners.leaves, [&] { return dice_.leaf(); });
    if (dice_.one_in(2)) owners.name = dice_.text();
    if (dice_.one_in(2)) owners.maybe = dice_.leaf();
    if (!nodes_.empty() && dice_.one_in(3)) owners.shared = nodes_[dice_.below(nodes_.size())];
    switch (dice_.below(6)) {
        case 0:
            owners.one = dice_.text();
            break;
        case 1:
            owners.one = dice_.leaf();
            break;
        case 2:
            owners.one = std::make_unique<Leaf>(dice_.leaf());
            break;
        case 3:
            owners.one = some_node();
            break;
        default:
            owners.one = dice_.number();
    }
}

// Those that pointers may lead to. From here on the containers keep them where they are.
void NetworkMaker::pool_leaves(Node& node) {
    const auto add = [&](const Leaf& leaf) {
        if (dice_.one_in(2)) leaves_.push_back(&leaf);
    };
    for (const Leaf& leaf : node.lists.list) add(leaf);
    for (const Leaf& leaf : node.lists.queue) add(leaf);
    for (const Leaf& leaf : node.owners.leaves) add(leaf);
    for (const Leaf& leaf : node.pmr.leaves) add(leaf);
    for (const auto& [key, leaf] : node.maps.map) add(leaf);
    for (const auto& [key, leaf] : node.hashes.map) add(leaf);
    if (node.owners.maybe) add(*node.owners.maybe);
    if (const auto* leaf = std::get_if<Leaf>(&node.owners.one)) add(*leaf);
    if (const auto* leaf = std::get_if<std::unique_ptr<Leaf>>(&node.owners.one)) add(**leaf);
    if (node.owners.name) texts_.push_back(&*node.owners.name);
}

void NetworkMaker::fill_texts(Node& node) {
    node.texts.text = dice_.text();
    if (dice_.one_in(3)) node.texts.wide = dice_.wide();
    texts_.push_back(&node.texts.text);
    if (dice_.one_in(3)) {
        const std::string& text = dice_.of(texts_);
        node.texts.characters = text.c_str() + dice_.below(text.size() + 1);
    } else if (dice_.one_in(3)) {
        node.texts.characters = "a text of the program itself";
    }
    if (dice_.one_in(3)) {
        const std::string_view text = dice_.of(texts_);
        node.texts.view = text.substr(dice_.below(text.size() + 1), dice_.below(20));
    }
}

void NetworkMaker::fill_table(Node& node) {
    node.table.cache = left_behind_;
    const std::vector<Leaf>& leaves = dice_.of(all_).owners.leaves;
    if (!leaves.empty() && dice_.one_in(2))
        node.table.leaves = leaves.data(),
        node.table.size = static_cast<std::uint32_t>(1 + dice_.below(leaves.size()));
    if (dice_.one_in(4)) {
        node.table.name_count = static_cast<int>(1 + dice_.below(3));
        node.table.names = std::make_unique<std::string[]>(std::size_t(node.table.name_count));
        node.table.names[0] = dice_.text();
    }
}

void NetworkMaker::fill_links(Node& node) {
    Links& links = node.links;
    links.next = some_node();
    if (!inner_.empty()) links.inner = &dice_.of(inner_);
    links.leaf = some_leaf();
    if (const Leaf* leaf = some_leaf(); leaf != nullptr && dice_.one_in(3))
        links.value = &leaf->value;
    if (!couples_.empty() && dice_.one_in(3))
        links.couple = couples_[dice_.below(couples_.size())].get();
    for (Node*& one : links.both) one = some_node();
    dice_.fill(links.many, [&] { return some_node(); });
    const std::vector<Leaf>& leaves = dice_.of(all_).owners.leaves;
    if (!leaves.empty() && dice_.one_in(2)) {
        const std::size_t first = dice_.below(leaves.size());
        links.span = std::span(leaves).subspan(first, 1 + dice_.below(leaves.size() - first));
    }
    dice_.fill(node.pmr.map,
               [&] { return std::pair<const int, Node*>(dice_.number(), some_node()); });
}

const Leaf* NetworkMaker::some_leaf() {
    if (dice_.one_in(3)) return nullptr;
    if (leaves_.empty() || dice_.one_in(6))
        return single_.emplace_back(std::make_unique<Leaf>(dice_.leaf())).get();
    return &dice_.of(leaves_);
}

HouseholdMaker::HouseholdMaker(std::uint64_t seed, std::pmr::memory_resource& memory) {
    Dice dice(seed);
    for (std::size_t i = 1 + dice.below(dice.one_in(32) ? 300 : 8); i > 0; --i)
        all_.push_back(
            std::allocate_shared<Person>(std::pmr::polymorphic_allocator<Person>(&memory)));
    const auto some = [&] { return dice.one_in(4) ? nullptr : all_[dice.below(all_.size())]; };
    for (const auto& person : all_) {
        person->name = dice.text();
        person->best = some();
        person->other = some();
        dice.fill(person->friends, some);
        if (dice.one_in(3)) {
            person->leaf = std::make_shared<Leaf>(dice.leaf());
            all_.front()->leaf = person->leaf;
        }
    }
    household_.head = some();
    household_.gone = std::make_shared<Person>();
    dice.fill(household_.people, some);
    household_.people.push_back(all_.front());
}

HouseholdMaker::~HouseholdMaker() {
    for (const auto& person : all_) {
        person->best.reset();
        person->friends.clear();
    }
}

BranchMaker::BranchMaker(std::uint64_t seed, std::pmr::memory_resource& memory)
    : dice_(seed), memory_(memory), root_(make(0)) {}

Branch BranchMaker::make(unsigned depth) {
    const auto text = [&] { return dice_.text(); };
    Branch branch{.texts = std::pmr::vector<std::pmr::string>(&memory_)};
    branch.name = text();
    for (std::size_t i = dice_.below(4); i > 0 && depth < 4; --i)
        branch.children.push_back(make(depth + 1));
    if (depth < 4 && dice_.one_in(2)) branch.owned = std::make_unique<Branch>(make(depth + 1));
    dice_.fill(branch.list, text);
    dice_.fill(branch.map, [&] {
        return std::pair<const std::string, std::vector<int>>(text(), dice_.below(9));
    });
    dice_.fill(branch.hashes,
               [&] { return std::pair<const int, std::string>(dice_.number(), text()); });
    dice_.fill(branch.texts, [&] { return std::pmr::string(text(), &memory_); });
    dice_.fill(branch.queue,
               [&] { return dice_.one_in(2) ? std::optional<Leaf>(dice_.leaf()) : std::nullopt; });
    dice_.fill(branch.leaves, [&] { return std::make_unique<Leaf>(dice_.leaf()); });
    branch.values = dice_.values();
    return branch;
}

}  // namespace verbatim::kinds
