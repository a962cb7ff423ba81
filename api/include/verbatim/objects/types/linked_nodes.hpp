// Nodes of containers in composed messages: they are where the links of the peer say. Each becomes
// a node of one container, and its links are written anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <verbatim/objects/types/nodes.hpp>

namespace verbatim::objects::detail {

// As NodeMending, for chains.
template <class Linker, class R>
struct LinkedNodes {
    using Node = typename Linker::Node;

    // `count` is kMostObjects where a null ends the chain.
    static void begin(R& receiver, std::byte* image, std::uint64_t count, const void* first) {
        receiver.put_off({&step, image, count, reinterpret_cast<std::uint64_t>(first)});
    }

  private:
    static void step(typename R::Walk& walk, const typename R::Frame& frame) {
        auto& receiver = static_cast<R&>(walk);
        Linker linker(receiver, frame.at);
        const auto* at = reinterpret_cast<const void*>(frame.state);
        const bool ends_with_null = frame.count == kMostObjects;
        for (std::uint64_t left = frame.count; left > 0; --left) {
            if (at == nullptr && ends_with_null) break;
            auto* const node = receiver.template look_at<Node>(at);
            at = node->links.next;
            receiver.take_node(node);
            linker.add(node);
        }
        linker.stop();
        linker.finish();
    }
};

// The same for trees, whose nodes are taken in order.
template <class Linker, class R>
struct LinkedTree {
    using Node = typename Linker::Node;

    static void begin(R& receiver, std::byte* image, std::uint64_t count, const void* root) {
        receiver.put_off({&step, image, count, reinterpret_cast<std::uint64_t>(root)});
    }

  private:
    // No balanced tree of nodes that fit an address space is deeper.
    static constexpr std::size_t kMostDeep = 128;

    static void step(typename R::Walk& walk, const typename R::Frame& frame) {
        auto& receiver = static_cast<R&>(walk);
        Linker linker(receiver, frame.at);
        std::array<Node*, kMostDeep> path;
        std::size_t depth = 0;
        std::uint64_t left = frame.count;
        const auto* at = reinterpret_cast<const void*>(frame.state);
        while (at != nullptr || depth > 0) {
            for (; at != nullptr; at = path[depth++]->links.left) {
                if (depth == kMostDeep) receiver.corrupt("a tree is deeper than any");
                path[depth] = receiver.template look_at<Node>(at);
            }
            Node* const node = path[--depth];
            at = node->links.right;
            if (left-- == 0) receiver.corrupt("a tree has more nodes than it says");
            receiver.take_node(node);
            linker.add(node);
        }
        if (left != 0) receiver.corrupt("a tree has fewer nodes than it says");
        linker.stop();
        linker.finish();
    }
};

}  // namespace verbatim::objects::detail
