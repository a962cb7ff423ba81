// A graph taken through the sender's scan and the receiver's fix-up without a connection: the image
// is copied by hand. For tests that look at images, change them, or need no peer.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <verbatim/objects/fixup.hpp>
#include <verbatim/objects/scan.hpp>

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
    std::vector<objects::BackPointer> back_pointers;
    std::vector<objects::Extension> extensions;

    template <class T>
    T* mend() {
        objects::FixupTables tables;
        return objects::Fixup(bytes.get(), size, back_pointers, extensions, tables)
            .template run<T>();
    }
    Image copy() const {
        Image other = empty(size);
        std::memcpy(other.bytes.get(), bytes.get(), size);
        other.back_pointers = back_pointers;
        other.extensions = extensions;
        return other;
    }
    static Image empty(std::uint64_t size) {
        Image image;
        image.bytes.reset(static_cast<std::byte*>(::operator new (size, std::align_val_t{4096})));
        std::memset(image.bytes.get(), 0, size);
        image.size = size;
        return image;
    }
};

inline Image image_of(const objects::Scan& scan) {
    Image image = Image::empty(scan.image_bytes());
    for (const objects::Stretch& stretch : scan.stretches())
        std::memcpy(image.bytes.get() + stretch.offset,
                    reinterpret_cast<const void*>(stretch.address), stretch.bytes);
    for (const objects::ShortString& string : scan.short_strings()) {
        objects::StringImage<char> local;
        std::memcpy(&local, reinterpret_cast<const void*>(string.address), sizeof local);
        const std::byte* characters = local.data;
        std::memset(local.local, 0, sizeof local.local);
        std::memcpy(local.local, characters, local.size * string.character_bytes);
        std::memcpy(image.bytes.get() + string.offset, &local, sizeof local);
    }
    image.back_pointers.assign(scan.back_pointers().begin(), scan.back_pointers().end());
    image.extensions.assign(scan.extensions().begin(), scan.extensions().end());
    return image;
}

inline Arena& test_arena() {
    static Arena arena([] {
        ArenaOptions options;
        options.name = "test";
        options.segment_bytes = std::size_t{4} << 20;
        options.pages = PageChoice::base_4k;
        return options;
    }());
    return arena;
}

template <class T>
Image image_of(const T& root) {
    objects::Scan scan(test_arena());
    scan.run(root);
    return image_of(scan);
}

}  // namespace verbatim::test
