// Twins are two graphs of equal meaning: equal values, and the same objects wherever the same
// objects are. A reference leads into the inside of the object that it led into.
#pragma once

#include <cstring>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "kinds.hpp"

namespace verbatim::kinds {

class Twins {
  public:
    template <class Root>
    static bool are(const Root& a, const Root& b) {
        Twins twins;
        twins.same(a, b);
        while (!twins.left_.empty() && twins.equal_) {
            const Left next = twins.left_.back();
            twins.left_.pop_back();
            next.visit(twins, next.a, next.b);
        }
        twins.check_views();
        return twins.equal_;
    }

  private:
    template <class T>
    static constexpr char kTag = 0;
    struct Key {
        const void* object;
        const void* type;
        bool operator==(const Key&) const = default;
        friend std::size_t hash_value(const Key& key) {
            return (reinterpret_cast<std::size_t>(key.object) ^
                    reinterpret_cast<std::size_t>(key.type) << 7) *
                   0x9e3779b97f4a7c15;
        }
    };
    struct Left {
        void (*visit)(Twins&, const void*, const void*);
        const void *a, *b;
    };
    using Places = boost::unordered_flat_map<Key, const void*>;

    void require(bool condition) { equal_ &= condition; }
    // False if both are known already.
    template <class T>
    bool note(const T* a, const T* b) {
        const auto [at, is_new] = places_.try_emplace({a, &kTag<std::remove_cv_t<T>>}, b);
        const auto [back, is_new_back] = origins_.try_emplace({b, &kTag<std::remove_cv_t<T>>}, a);
        require(at->second == b && back->second == a);
        return is_new;
    }
    template <class T>
    void link(const T* a, const T* b) {
        if (a == nullptr || b == nullptr) return require(a == b);
        if (!note(a, b)) return;
        if constexpr (std::is_arithmetic_v<T>)
            require(*a == *b);
        else
            left_.push_back({[](Twins& twins, const void* one, const void* other) {
                                 twins.members(*static_cast<const T*>(one),
                                               *static_cast<const T*>(other));
                             },
                             a, b});
    }
    template <class T>
    void members(const T& a, const T& b) {
        std::apply([&](auto... member) { (same(a.*member, b.*member), ...); }, T::kMembers);
    }
    template <class C>
    void all(const C& a, const C& b) {
        auto other = b.begin();
        std::size_t count = 0;
        for (auto at = a.begin(); at != a.end() && other != b.end(); ++at, ++other, ++count)
            same(*at, *other);
        require(count == static_cast<std::size_t>(std::distance(a.begin(), a.end())));
        require(count == static_cast<std::size_t>(std::distance(b.begin(), b.end())));
    }
    void text(const char* a, const char* b, std::size_t bytes) { texts_[a] = {b, bytes}; }
    void view(const char* a, const char* b) { views_.emplace_back(a, b); }
    // Those of texts that were met lead to the same place in them.
    void check_views() {
        for (const auto& [a, b] : views_) {
            auto at = texts_.upper_bound(a);
            if (at == texts_.begin()) continue;
            --at;
            const auto offset = static_cast<std::size_t>(a - at->first);
            if (offset <= at->second.second) require(b == at->second.first + offset);
        }
    }

    // ---- by kind of field ----
    template <class T>
    void same(const T& a, const T& b) {
        if constexpr (requires { T::kMembers; }) {
            if (note(&a, &b)) members(a, b);
        } else {
            if constexpr (std::is_same_v<T, double>) note(&a, &b);
            require(a == b);
        }
    }
    void same(const std::string& a, const std::string& b) {
        require(a == b);
        text(a.data(), b.data(), a.size());
    }
    void same(const char* a, const char* b) {
        if (a == nullptr || b == nullptr) return require(a == b);
        require(std::strcmp(a, b) == 0);
        view(a, b);
    }
    void same(const std::string_view& a, const std::string_view& b) {
        require(a == b);
        if (!a.empty()) view(a.data(), b.data());
    }
    template <class T>
    requires requires { T::kMembers; }
    void same(T* a, T* b) { link(a, b); }
    void same(const double* a, const double* b) { link(a, b); }
    template <class T>
    void same(const std::unique_ptr<T>& a, const std::unique_ptr<T>& b) {
        link(a.get(), b.get());
    }
    template <class T>
    void same(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b) {
        link(a.get(), b.get());
    }
    template <class T>
    void same(const std::weak_ptr<T>& a, const std::weak_ptr<T>& b) {
        link(a.lock().get(), b.lock().get());
    }
    template <class T>
    void same(const std::span<T>& a, const std::span<T>& b) {
        all(a, b);
    }
    template <class T>
    void same(const std::optional<T>& a, const std::optional<T>& b) {
        require(a.has_value() == b.has_value());
        if (a && b) same(*a, *b);
    }
    template <class A, class B>
    void same(const std::pair<A, B>& a, const std::pair<A, B>& b) {
        same(a.first, b.first);
        same(a.second, b.second);
    }
    template <class... T>
    void same(const std::variant<T...>& a, const std::variant<T...>& b) {
        require(a.index() == b.index());
        if (!equal_) return;
        std::visit(
            [&](const auto& value) {
                same(value, std::get<std::remove_cvref_t<decltype(value)>>(b));
            },
            a);
    }
    template <class T, std::size_t N>
    void same(const T (&a)[N], const T (&b)[N]) {
        for (std::size_t i = 0; i < N; ++i) same(a[i], b[i]);
    }
    template <class T, std::size_t N>
    void same(const std::array<T, N>& a, const std::array<T, N>& b) {
        all(a, b);
    }
    template <class T, class A>
    requires(!std::is_same_v<T, bool>) void same(const std::vector<T, A>& a,
                                                 const std::vector<T, A>& b) {
        all(a, b);
    }
    template <class T, class A>
    void same(const std::list<T, A>& a, const std::list<T, A>& b) {
        all(a, b);
    }
    template <class T, class A>
    void same(const std::deque<T, A>& a, const std::deque<T, A>& b) {
        all(a, b);
    }
    template <class K, class T, class C, class A>
    void same(const std::map<K, T, C, A>& a, const std::map<K, T, C, A>& b) {
        all(a, b);
    }
    // Their order may differ.
    void same(const std::unordered_map<int, Leaf>& a, const std::unordered_map<int, Leaf>& b) {
        require(a.size() == b.size());
        for (const auto& [key, leaf] : a) {
            const auto at = b.find(key);
            require(at != b.end());
            if (at != b.end()) same(leaf, at->second);
        }
    }
    void same(const Table& a, const Table& b) {
        require(a.size == b.size && a.name_count == b.name_count && b.cache == 0);
        require((a.leaves == nullptr) == (b.leaves == nullptr) && (!a.names) == (!b.names));
        if (!equal_) return;
        for (std::uint32_t i = 0; a.leaves != nullptr && i < a.size; ++i)
            same(a.leaves[i], b.leaves[i]);
        for (int i = 0; a.names && i < a.name_count; ++i)
            same(a.names[std::size_t(i)], b.names[std::size_t(i)]);
    }

    bool equal_ = true;
    Places places_, origins_;
    std::vector<Left> left_;
    std::map<const char*, std::pair<const char*, std::size_t>> texts_;
    std::vector<std::pair<const char*, const char*>> views_;
};

}  // namespace verbatim::kinds
