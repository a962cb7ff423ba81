// Tampering changes bytes of an image on its way through a loopback, as a hostile peer would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <verbatim/driver/error.hpp>

#include "objects_loopback.hpp"

namespace verbatim::objects {

// Writes `value` at `offset` of the image.
template <class T, class Value>
void write_at_start(Loopback<T>& loopback, std::uint64_t offset, Value value) {
    loopback.tamper = [offset, value](std::uint64_t first, std::byte* bytes, std::uint64_t count) {
        if (offset >= first && offset + sizeof value <= first + count)
            std::memcpy(bytes + (offset - first), &value, sizeof value);
    };
}

// The call must throw Error(corrupt_message), whose text has that part.
template <class Call>
void expect_corrupt(Call&& call, const std::string& part) {
    try {
        call();
        ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_message) << error.what();
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}
#define EXPECT_CORRUPT(expression, part) expect_corrupt([&] { (void)(expression); }, part)

// Sends `root` with every byte of the start of its image changed in turn, in several ways. Each
// time it must arrive or be refused; `use` reads what arrived.
template <class T, class Use>
void send_with_each_byte_changed(const T& root, std::uint64_t bytes, Use&& use) {
    const auto arena = std::make_shared<Arena>(ArenaOptions{});
    for (std::uint64_t at = 0; at < bytes; ++at)
        for (const unsigned change : {0x01u, 0x80u, 0xffu, 0x40u}) {
            Loopback<T> loopback(arena);
            loopback.tamper = [at, change](std::uint64_t first, std::byte* data,
                                           std::uint64_t count) {
                if (at >= first && at < first + count) data[at - first] ^= std::byte(change);
            };
            try {
                use(loopback.send(root));
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), Errc::corrupt_message) << error.what();
            }
        }
}

}  // namespace verbatim::objects
