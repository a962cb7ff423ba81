// Nodes of containers in composed messages are where the links of the peer say. Each becomes a node
// of one container, and its links are written anew. Nothing is written into a node before it is
// known that nothing else has its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <verbatim/objects/libstdcxx_containers.hpp>

namespace verbatim::objects::detail {

// In place of the number of nodes in a chain: a null ends it.
inline constexpr std::uint64_t kUntilNull = ~std::uint64_t{0};

// As NodeMending, for chains.
template <class Linker, class R>
struct LinkedNodes {
    using Node = typename Linker::Node;

    static void begin(R& receiver, std::byte* image, std::uint64_t count, const void* first) {
        receiver.put_off({&step, image, count, reinterpret_cast<std::uint64_t>(first)});
    }

  private:
    static void step(typename R::Walk& walk, const typename R::Frame& frame) {
        auto& receiver = static_cast<R&>(walk);
        Linker linker(receiver, frame.at);
        const auto* at = reinterpret_cast<const void*>(frame.state);
        const bool ends_with_null = frame.count == kUntilNull;
        for (std::uint64_t left = frame.count; left > 0; --left) {
            if (at == nullptr && ends_with_null) break;
            auto* const node = receiver.template look_at<Node>(at);
            at = node->links.next;
            receiver.claim_node(node);
            receiver.mend_node(node);
            linker.add(node);
        }
        linker.stop();
        linker.finish();
    }
};

// The same for trees, whose nodes are walked in order. They keep their shape and their colours,
// which must be those of a balanced tree. `Order` has fits(links, next_links): the keys.
template <class Node, class Order, class R>
class LinkedTree {
  public:
    static void begin(R& receiver, std::byte* image, std::uint64_t count, const void* root) {
        receiver.put_off({&step, image, count, reinterpret_cast<std::uint64_t>(root)});
    }

  private:
    // No balanced tree of nodes that fit an address space is deeper.
    static constexpr std::size_t kMostDeep = 128;
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    struct Visit {
        TreeLinks* node;
        std::uint64_t blacks;  // of it and those above
    };
    // The nodes that come after what is on their left. The array is not made of zeros: most trees
    // are small.
    using Visits = std::array<Visit, kMostDeep>;
    // Stays in registers: so it is not handed to what is not inlined.
    struct Path {
        std::size_t depth = 0;
        std::uint64_t leaf_blacks = kNone;  // on the way to each end
    };

    static void step(typename R::Walk& walk, const typename R::Frame& frame) {
        auto& receiver = static_cast<R&>(walk);
        auto& tree = *reinterpret_cast<TreeImage*>(frame.at);
        std::uint64_t left = frame.count;
        tree.header.parent = reinterpret_cast<TreeLinks*>(frame.state);
        Visits visits;
        Path path;
        descend(receiver, tree.header.parent, {&tree.header, 0}, visits, path);
        TreeLinks* last = nullptr;
        while (path.depth > 0) {
            const Visit at = visits[--path.depth];
            if (left-- == 0) receiver.corrupt("a tree has more nodes than it says");
            take(receiver, tree, last, at.node);
            last = at.node;
            descend(receiver, last->right, at, visits, path);
        }
        if (left != 0) receiver.corrupt("a tree has fewer nodes than it says");
        tree.header.right = last;
    }
    [[gnu::always_inline]] static void take(R& receiver, TreeImage& tree, TreeLinks* last,
                                            TreeLinks* next) {
        receiver.mend_node(reinterpret_cast<Node*>(next));
        if (last == nullptr)
            tree.header.left = next;
        else if (!Order::fits(*last, *next))
            receiver.corrupt("the keys of a container are out of order");
    }
    // To the first node of a subtree. `link` leads to it from the node of `above`.
    [[gnu::always_inline]] static void descend(R& receiver, TreeLinks*& link, Visit above,
                                               Visits& visits, Path& path) {
        for (TreeLinks** at = &link; *at != nullptr; at = &above.node->left) {
            Node* const node = receiver.template look_at<Node>(*at);
            receiver.claim_node(node);
            TreeLinks& links = node->links;
            // The header is red: so the root is black.
            if (links.color > TreeLinks::kBlack ||
                (links.color | above.node->color) == TreeLinks::kRed || path.depth == kMostDeep)
                receiver.corrupt("a tree is not balanced");
            // Not null, for which the processor would look in its page tables each time.
            receiver.fetch(links.right != nullptr ? links.right : *at);
            *at = &links;
            links.parent = above.node;
            above = {&links, above.blacks + links.color};
            visits[path.depth++] = above;
        }
        if (path.leaf_blacks == kNone) path.leaf_blacks = above.blacks;
        if (path.leaf_blacks != above.blacks) receiver.corrupt("a tree is not balanced");
    }
};

}  // namespace verbatim::objects::detail
