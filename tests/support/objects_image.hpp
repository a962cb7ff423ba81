// A graph taken through the two walks without a connection: the image is copied by hand. For tests
// that look at images, change them, or need no peer.
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/graph/open_walks.hpp>
#include <verbatim/objects/types/all.hpp>

#include "shapes/objects_classes.hpp"

namespace verbatim::test {

// What a receiver would hold after all bytes came.
struct Image {
    struct Free {
        void operator()(std::byte* p) const noexcept {
            ::operator delete (p, std::align_val_t{4096});
        }
    };
    std::unique_ptr<std::byte, Free> bytes;
    std::uint64_t size = 0;
    std::vector<objects::PlaceRecord> places;
    std::vector<objects::ArrayRecord> arrays;
    objects::Mending::Told told;
    std::shared_ptr<objects::ToldClasses> classes;  // of an open graph

    template <class T>
    T* mend() {
        objects::MendTables tables;
        tables.classes = classes;
        objects::Mender<T> mender(tables, false);
        if (size != 0) mender.add_memory(0, bytes.get(), size);
        mender.add_records(places, arrays);
        told.cursor = size;
        mender.advance_to(told);
        if (!mender.run()) objects::Mending::corrupt("it ends before its end");
        return static_cast<T*>(mender.root());
    }
    Image copy() const {
        Image other = empty(size);
        std::memcpy(other.bytes.get(), bytes.get(), size);
        other.places = places;
        other.arrays = arrays;
        other.told = told;
        other.classes = classes;
        return other;
    }
    static Image empty(std::uint64_t size) {
        Image image;
        image.bytes.reset(
            static_cast<std::byte*>(::operator new (size == 0 ? 1 : size, std::align_val_t{4096})));
        std::memset(image.bytes.get(), 0, size);
        image.size = size;
        return image;
    }
};

inline Arena& test_arena() {
    static const auto arena = [] {
        ArenaOptions options;
        options.name = "test";
        options.segment_bytes = std::size_t{4} << 20;
        options.pages = PageChoice::base_4k;
        return std::make_shared<Arena>(options);
    }();
    return *arena;
}

// One walk of a sender after the other, with the same tables.
class Scan {
  public:
    explicit Scan(Arena& arena)
        : tables_(std::shared_ptr<Arena>(std::shared_ptr<void>(), &arena)) {}

    // `flush_bytes`: of the image, between two announcements; what was announced is no longer
    // written into, but told in records.
    template <class T>
    void run(const T& root, std::uint64_t flush_bytes = std::uint64_t{1} << 40) {
        objects::PackOptions options;
        options.flush_bytes = flush_bytes;
        objects::Packer<T> packer(tables_, root, options);
        bytes_.clear();
        image_ = Image{};
        for (bool done = false; !done;) {
            done = packer.run();
            if (packer.take_restart()) {
                bytes_.clear();
                image_ = Image{};
            }
            take(packer);
            image_.told = {packer.staging().cursor(), packer.steps(), packer.references(), true};
            packer.set_announced();
            packer.staging().buffers().set_retired();
        }
        objects_ = packer.objects();
    }
    Image image() {
        Image image = Image::empty(image_.told.cursor);
        std::memcpy(image.bytes.get(), bytes_.data(), bytes_.size());
        image.places = image_.places;
        image.arrays = image_.arrays;
        image.told = image_.told;
        image.classes = all_classes_of(tables_);
        return image;
    }
    std::uint64_t objects() const noexcept { return objects_; }
    std::uint64_t image_bytes() const noexcept { return image_.told.cursor; }

  private:
    void take(objects::Packing& packing) {
        objects::Staging& staging = packing.staging();
        bytes_.resize(staging.cursor());
        for (const objects::Piece& piece : staging.pieces())
            std::memcpy(bytes_.data() + piece.offset, piece.from, piece.bytes);
        for (const objects::Patch& patch : staging.patches())
            std::memcpy(bytes_.data() + patch.offset, patch.data, patch.bytes);
        const auto places = packing.places();
        const auto arrays = packing.arrays();
        image_.places.insert(image_.places.end(), places.begin(), places.end());
        image_.arrays.insert(image_.arrays.end(), arrays.begin(), arrays.end());
    }

    objects::PackTables tables_;
    std::vector<std::byte> bytes_;
    Image image_;
    std::uint64_t objects_ = 0;
};

template <class T>
Image image_of(const T& root, std::uint64_t flush_bytes = std::uint64_t{1} << 40) {
    Scan scan(test_arena());
    scan.run(root, flush_bytes);
    return scan.image();
}

}  // namespace verbatim::test
