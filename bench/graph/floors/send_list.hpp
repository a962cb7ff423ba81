// A traversal by hand that lists the memory of a graph for sending, as Naos does (ATC'21, §3.1):
// blocks in the order of the walk, adjacent ones merged. Nothing is copied.
#pragma once

#include <deque>
#include <memory_resource>
#include <span>
#include <type_traits>
#include <vector>

#include <boost/pfr/core.hpp>

#include "image_layout.hpp"
#include "visited.hpp"

namespace bench_graph {

enum class WalkOrder { depth_first, breadth_first };

class SendList {
  public:
    void clear() noexcept { blocks_.clear(); }
    void add(const void* start, std::size_t bytes) {
        const auto* first = static_cast<const std::byte*>(start);
        const std::byte* const end = first + image::round_up(bytes);
        if (!blocks_.empty() && blocks_.back().end == first)
            blocks_.back().end = end;
        else
            blocks_.push_back({first, end});
    }
    std::size_t length() const noexcept { return blocks_.size(); }

  private:
    struct Block {
        const std::byte* first;
        const std::byte* end;
    };
    std::vector<Block> blocks_;
};

// Pointers wait at the end; the next one is taken from there, or from the front.
template <WalkOrder Order>
class Listing {
  public:
    Listing(VisitedView visited, SendList& list) : visited_(visited), list_(list) {}

    template <class Root>
    std::uint64_t run(const Root& root) {
        take(&root);
        while (!waiting_.empty()) {
            const Waiting next =
                Order == WalkOrder::depth_first ? waiting_.back() : waiting_.front();
            if constexpr (Order == WalkOrder::depth_first)
                waiting_.pop_back();
            else
                waiting_.pop_front();
            next.take(*this, next.object);
        }
        return place_;
    }

  private:
    struct Waiting {
        void (*take)(Listing&, const void*);
        const void* object;
    };
    template <class T>
    void take(const T* object) {
        if (visited_.find(object) != 0) return;
        note(object, sizeof(T));
        if constexpr (image::needs_visit<T>()) {
            // What is taken from the end is put there last.
            if constexpr (Order == WalkOrder::depth_first)
                fields_backwards(*object);
            else
                boost::pfr::for_each_field(*object,
                                           [this](const auto& field) { this->follow(field); });
        }
    }
    template <class T>
    void fields_backwards(const T& object) {
        constexpr std::size_t kFields = boost::pfr::tuple_size_v<T>;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (this->follow(boost::pfr::get<kFields - 1 - I>(object)), ...);
        }
        (std::make_index_sequence<kFields>());
    }
    template <class T>
    void follow(T* const& target) {
        if (target == nullptr) return;
        waiting_.push_back({[](Listing& listing, const void* object) {
                                listing.take(static_cast<const T*>(object));
                            },
                            target});
    }
    template <class T>
    void follow(const std::pmr::vector<T*>& targets) {
        note(targets.data(), targets.size() * sizeof(T*));
        const std::size_t count = targets.size();
        for (std::size_t i = 0; i < count; ++i)
            follow(targets[Order == WalkOrder::depth_first ? count - 1 - i : i]);
    }
    template <class T>
    requires std::is_arithmetic_v<T>
    void follow(const T&) {}

    void note(const void* object, std::size_t bytes) {
        visited_.enter(object, bytes, place_);
        place_ += image::round_up(bytes);
        list_.add(object, bytes);
    }

    VisitedView visited_;
    SendList& list_;
    std::deque<Waiting> waiting_;
    std::uint64_t place_ = image::kFirst;
};

}  // namespace bench_graph
