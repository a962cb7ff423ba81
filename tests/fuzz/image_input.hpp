// Images of graphs as inputs of fuzz targets: a type, records, what the sender told, bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "fuzz_target.hpp"
#include "objects_image.hpp"

namespace verbatim::fuzz {

// The type of an array record in two bytes: that it says a class, a class, a position.
inline std::uint64_t record_type_of(std::uint64_t number) {
    if ((number & 0x8000) != 0) return objects::kRecordSaysClass | (number & 0x7fff);
    return (number >> 8) << objects::kRecordClassShift | (number & 0xff);
}
inline std::uint64_t number_of(std::uint64_t record_type) {
    if ((record_type & objects::kRecordSaysClass) != 0) return 0x8000 | (record_type & 0x7fff);
    return (record_type >> objects::kRecordClassShift) << 8 | (record_type & 0xff);
}

inline test::Image image_of(Input& input) {
    const auto places = input.number(1), arrays = input.number(1);
    objects::Mending::Told told;
    told.steps = input.number(2);
    told.references = input.number(2);
    told.is_last = true;
    std::vector<objects::PlaceRecord> found;
    for (std::uint64_t i = 0, reference = 0; i < places % 64; ++i) {
        reference += input.number(2) % 32;
        found.push_back({reference, input.number(2)});
    }
    std::vector<objects::ArrayRecord> whole;
    for (std::uint64_t i = 0; i < arrays % 8; ++i)
        whole.push_back(
            {input.number(2), input.number(2), input.number(1), record_type_of(input.number(2))});
    const std::size_t bytes = std::max<std::size_t>(input.left(), 1);
    test::Image image = test::Image::empty(bytes);
    const auto rest = input.take(bytes);
    if (!rest.empty()) std::memcpy(image.bytes.get(), rest.data(), rest.size());
    image.places = std::move(found);
    image.arrays = std::move(whole);
    image.told = told;
    return image;
}

// `flush_bytes`: small ones give many records, large ones references in the image.
template <class T>
std::vector<std::byte> image_seed(std::uint8_t type, const T& root, std::uint64_t flush_bytes) {
    const test::Image image = test::image_of(root, flush_bytes);
    std::vector<std::byte> seed{std::byte{type}, static_cast<std::byte>(image.places.size()),
                                static_cast<std::byte>(image.arrays.size())};
    const auto number = [&](std::uint64_t value) {
        seed.push_back(static_cast<std::byte>(value >> 8));
        seed.push_back(static_cast<std::byte>(value));
    };
    number(image.told.steps), number(image.told.references);
    std::uint64_t last = 0;
    for (const auto& place : image.places) {
        number(place.reference - last), number(place.offset);
        last = place.reference;
    }
    for (const auto& array : image.arrays) {
        number(array.reference), number(array.offset);
        seed.push_back(static_cast<std::byte>(array.count));
        number(number_of(array.type));
    }
    seed.insert(seed.end(), image.bytes.get(), image.bytes.get() + image.size);
    // Seeds are good graphs, and read back as what they are.
    Input input(reinterpret_cast<const std::uint8_t*>(seed.data()) + 1, seed.size() - 1);
    test::Image again = image_of(input);
    again.classes = image.classes;
    require(again.size == image.size && again.mend<T>() != nullptr);
    return seed;
}

}  // namespace verbatim::fuzz
