// Links of received containers: made, and checked where several owners might have the same node.
#include <verbatim/objects/libstdcxx_containers.hpp>

#include <algorithm>
#include <array>
#include <bit>

namespace verbatim::objects {
namespace {

// Takes the nodes of a chain in order. The tree has one depth but for the last level, which is red
// unless it is full: so every path has equally many black nodes.
struct TreeBuilder {
    TreeLinks* next;
    unsigned red_depth;

    // Null also where the chain ends early: a hostile peer gave its nodes to two containers.
    TreeLinks* build(std::size_t count, unsigned depth) noexcept {
        if (count == 0) return nullptr;
        TreeLinks* const left = build((count - 1) / 2, depth + 1);
        TreeLinks* const node = next;
        if (node == nullptr) return nullptr;
        next = node->right;
        node->color = depth == red_depth ? TreeLinks::kRed : TreeLinks::kBlack;
        node->left = left;
        if (left != nullptr) left->parent = node;
        node->right = build(count / 2, depth + 1);
        if (node->right != nullptr) node->right->parent = node;
        return node;
    }
};

// The nodes of a subtree in which every one knows its parent; else more than `most`.
std::size_t count_of(const TreeLinks* node, const TreeLinks* parent, std::size_t most,
                     unsigned depth) noexcept {
    if (node == nullptr) return 0;
    const bool has_one_child_twice = node->left != nullptr && node->left == node->right;
    if (node->parent != parent || has_one_child_twice || depth == 64) return most + 1;
    const std::size_t left = count_of(node->left, node, most, depth + 1);
    if (left > most) return left;
    return std::min(left + count_of(node->right, node, most, depth + 1) + 1, most + 1);
}

}  // namespace

void build_tree(TreeImage& tree) noexcept {
    TreeLinks *const first = tree.header.left, *const last = tree.header.right;
    const std::size_t count = tree.count;
    const auto levels = static_cast<unsigned>(std::bit_width(count));
    const bool is_full = std::has_single_bit(count + 1);
    TreeBuilder builder{first, is_full ? levels : levels - 1};
    TreeLinks* const root = builder.build(count, 0);
    if (root != nullptr) root->parent = &tree.header;
    tree.header = {TreeLinks::kRed, root, first, last};
}

// Breadth first through the subtrees that come next: their fetches do not wait for each other.
void fetch_tree_after(const TreeLinks* node) noexcept {
    constexpr std::size_t kMost = 64;
    std::array<const TreeLinks*, kMost> queue;
    std::size_t end = 0, expected = 0;
    const auto add = [&](const TreeLinks* next) {
        if (next == nullptr || end == kMost) return;
        __builtin_prefetch(next);
        queue[end++] = next;
    };
    add(node->right);
    for (unsigned height = 0; height < 16 && expected < kMost; ++height) {
        const TreeLinks* const parent = node->parent;
        if (parent->parent == node) break;  // the header
        if (node == parent->left) {
            add(parent->right);
            expected += std::size_t{1} << height;
        }
        node = parent;
    }
    for (std::size_t i = 0; i < end; ++i) {
        add(queue[i]->left);
        add(queue[i]->right);
    }
}

bool tree_is_whole(const TreeImage& tree) noexcept {
    return count_of(tree.header.parent, &tree.header, tree.count, 0) == tree.count;
}

bool list_is_whole(const ListImage& list) noexcept {
    const ListLinks* at = &list.ends;
    for (std::size_t i = 0; i <= list.size; ++i) {
        if (at->next->previous != at) return false;
        at = at->next;
        if ((at == &list.ends) != (i == list.size)) return false;
    }
    return true;
}

// Two pointers, one of which is twice as fast, meet in a ring.
bool chain_ends(const ChainLink* first) noexcept {
    const ChainLink *slow = first, *fast = first;
    while (fast != nullptr && fast->next != nullptr) {
        slow = slow->next;
        fast = fast->next->next;
        if (slow == fast) return false;
    }
    return true;
}

}  // namespace verbatim::objects
