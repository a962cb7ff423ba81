// A received graph owns the memory that its objects lie in. It is kept without a window, shared in
// parts, cloned to the heap, forwarded (docs/objects.md, "Lives of a graph").
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <verbatim/objects/clones/class_cloning.hpp>
#include <verbatim/objects/operations/copying.hpp>
#include <verbatim/objects/operations/forward.hpp>
#include <verbatim/objects/operations/transfer.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim {
namespace objects {

inline ImageMemory memory_of(PrivateBlock&& block) {
    return ImageMemory(std::shared_ptr<void>(std::make_shared<PrivateBlock>(std::move(block))));
}

}  // namespace objects

// The result of one receive(), or map().
struct ReceiveReport {
    std::uint64_t objects = 0;
    std::uint64_t records = 0;  // references that the sender had to tell of
    std::uint64_t object_bytes = 0;
    bool verified = true;            // false: a placed file, which its caller trusts
    bool relocated = false;          // a placed file whose addresses were taken
    objects::ClassCounts classes{};  // of references to polymorphic objects
};

// A received graph. The objects are ordinary ones, to be read through `const T&`; their destructors
// never run, and their containers refuse to allocate. Movable; may be released by any thread and
// after the connection and the context are gone. Of a const T: read only. Threads: one at a time.
template <class T>
class Received {
  public:
    using Object = std::remove_const_t<T>;

    Received(objects::ImageMemory memory, T* root, ReceiveReport report) noexcept
        : memory_(std::move(memory)), root_(root), report_(report) {}
    Received(Received&& other) noexcept
        : memory_(std::move(other.memory_)),
          root_(std::exchange(other.root_, nullptr)),
          report_(other.report_),
          image_(std::move(other.image_)) {}
    Received& operator=(Received&& other) noexcept {
        memory_ = std::move(other.memory_);
        root_ = std::exchange(other.root_, nullptr);
        report_ = other.report_;
        image_ = std::move(other.image_);
        return *this;
    }

    const T& operator*() const noexcept { return *root_; }
    const T* operator->() const noexcept { return root_; }
    const T* get() const noexcept { return root_; }
    // For changing values in place. Containers must not grow, owners must not be released: the
    // memory is not theirs. From here on the graph is walked to be sent on.
    T& mutable_view() noexcept {
        image_.reset();
        return *root_;
    }
    const ReceiveReport& report() const noexcept { return report_; }

    // An object of the graph, by a pointer that keeps the whole graph. `part` may lie anywhere in
    // it. The pointer may outlive everything else, and be released by any thread.
    template <class U>
    std::shared_ptr<const U> share(const U* part) {
        return {memory_.share(), part};
    }
    // The same as a graph of its own, read only.
    template <class U>
    Received<const U> part(const U* part) {
        return {objects::ImageMemory(memory_.share()), part, report_};
    }

    // Moves the graph into memory of its own: windows and arenas get theirs back, unless a part
    // shares it. References into the graph are void. For graphs that are kept for long. Throws
    // Error(out_of_memory); the graph is then as it was.
    void compact() { *this = promote<T>(get()); }
    // A part of the graph, and all that it leads to, in memory of its own. The rest may be
    // released.
    template <class U>
    Received<U> promote(const U* part) const {
        auto copy = objects::copy_graph<std::remove_const_t<U>>(*part);
        const ReceiveReport report{copy.objects, 0, copy.bytes};
        return {objects::memory_of(std::move(copy.block)), copy.root, report};
    }

    // Can it be sent on as it came? Set by ReceiveOptions::forwardable, until it is compacted or
    // may have been changed.
    bool is_forwardable() const noexcept { return image_ != nullptr; }

    // The graph as ordinary objects on the heap, which end by their destructors. Their containers
    // may grow. Each object must have an owner: raw pointers and views are compile-time errors.
    // What pointers to a base class lead to is cloned as its derived class. Throws Error, only of
    // graphs with such pointers: unsupported (some class has no owners for its objects),
    // bad_pointer (an object has two owners, and one is a unique_ptr).
    std::unique_ptr<Object> clone() const { return objects::clone_graph<Object>(*root_); }

    // ---- for the operations ----
    const std::shared_ptr<const objects::KeptImage>& image() const noexcept { return image_; }
    void keep_image(std::shared_ptr<const objects::KeptImage> image) noexcept {
        image_ = std::move(image);
    }

  private:
    objects::ImageMemory memory_;
    T* root_;
    ReceiveReport report_;
    std::shared_ptr<const objects::KeptImage> image_;
};

}  // namespace verbatim
