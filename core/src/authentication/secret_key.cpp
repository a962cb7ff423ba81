// Key files, and libsodium's keyed hash.
#include "secret_key.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <verbatim/driver/descriptor.hpp>
#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {
namespace {

static_assert(SecretKey::kBytes == crypto_generichash_BYTES &&
              SecretKey::kBytes == crypto_generichash_KEYBYTES);

constexpr const char* kHowToMake = "make one: verbatim key FILE";
constexpr std::size_t kLongestText = 128;

void begin_sodium() {
    if (sodium_init() < 0)
        throw Error(Errc::device_error, "libsodium", "it has no source of random bytes",
                    "allow getrandom(2) where the process is confined (seccomp)");
}

const unsigned char* raw(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

// The text of a key file, wiped at its end.
struct KeyText {
    std::array<char, kLongestText + 1> bytes{};
    std::size_t size = 0;
    KeyText() = default;
    KeyText(const KeyText&) = delete;
    KeyText& operator=(const KeyText&) = delete;
    ~KeyText() { sodium_memzero(bytes.data(), bytes.size()); }
};

void check_rights(const Descriptor& file, const std::string& path) {
    struct stat status {};
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
        throw Error(Errc::config_error, path, "this key file is no regular file", kHowToMake);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        throw Error(Errc::permission_denied, path,
                    fmt::format("this key file belongs to user {}, this process to user {}",
                                status.st_uid, geteuid()),
                    fmt::format("run: chown {} {}", geteuid(), path));
    if ((status.st_mode & 077) != 0)
        throw Error(Errc::permission_denied, path,
                    fmt::format("group or others have rights to this key file (mode {:04o})",
                                status.st_mode & 07777),
                    fmt::format("run: chmod 600 {}", path));
}

void read_text(const std::string& path, KeyText& text) {
    // Without waiting, should it be a pipe.
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file) {
        const int error = errno;
        throw Error(error == EACCES ? Errc::permission_denied : Errc::config_error, path,
                    fmt::format("cannot read this key file ({})", errno_text(error)),
                    fmt::format("check key_file of [connect], or {}", kHowToMake));
    }
    check_rights(file, path);
    while (text.size < text.bytes.size()) {
        const ssize_t count =
            read(file.get(), &text.bytes[text.size], text.bytes.size() - text.size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        text.size += static_cast<std::size_t>(count);
    }
}

using Bytes = std::array<unsigned char, SecretKey::kBytes>;

bool is_blank(char c) noexcept {
    return std::string_view(" \t\r\n").find(c) != std::string_view::npos;
}

// All of the text, but for white space at its ends.
bool decode(const KeyText& text, Bytes& key) noexcept {
    std::size_t size = 0;
    const char* const begin = text.bytes.data();
    const char* end = nullptr;
    const auto is_all = [&] {
        return size == key.size() && std::all_of(end, begin + text.size, is_blank);
    };
    if (sodium_hex2bin(key.data(), key.size(), begin, text.size, nullptr, &size, &end) == 0 &&
        is_all())
        return true;
    for (const int variant :
         {sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING,
          sodium_base64_VARIANT_URLSAFE, sodium_base64_VARIANT_URLSAFE_NO_PADDING})
        if (sodium_base642bin(key.data(), key.size(), begin, text.size, nullptr, &size, &end,
                              variant) == 0 &&
            is_all())
            return true;
    return false;
}

// A text of 32 characters is a password, or cut off: random bytes are none in practice.
bool is_text(const KeyText& text) noexcept {
    return std::all_of(text.bytes.begin(), text.bytes.begin() + text.size,
                       [](char c) { return (c > ' ' && c <= '~') || is_blank(c); });
}

void parse_key(const KeyText& text, Bytes& key, const std::string& path) {
    if (text.size == key.size() && !is_text(text))
        std::memcpy(key.data(), text.bytes.data(), key.size());
    else if (!decode(text, key))
        throw Error(Errc::config_error, path,
                    "this key file holds no key: 32 random bytes, also as 64 hexadecimal digits or "
                    "as base64",
                    kHowToMake);
    if (std::all_of(key.begin(), key.end(), [&](unsigned char c) { return c == key[0]; }))
        throw Error(Errc::config_error, path, "the bytes of this key are all the same", kHowToMake);
}

}  // namespace

std::shared_ptr<const SecretKey> SecretKey::from_file(const std::string& path) {
    begin_sodium();
    KeyText text;
    read_text(path, text);
    Bytes key{};
    struct Wiping {
        Bytes& bytes;
        ~Wiping() { sodium_memzero(bytes.data(), bytes.size()); }
    } const wiping{key};
    parse_key(text, key, path);
    return std::make_shared<const SecretKey>(
        std::as_bytes(std::span<const unsigned char, kBytes>(key)));
}

SecretKey::SecretKey(std::span<const std::byte, kBytes> bytes) {
    begin_sodium();
    bytes_.reset(static_cast<std::byte*>(sodium_malloc(kBytes)));
    if (bytes_ == nullptr)
        throw Error(Errc::out_of_memory, "key", "no memory for it", "raise the limit: ulimit -v");
    std::memcpy(bytes_.get(), bytes.data(), kBytes);
    (void)sodium_mprotect_readonly(bytes_.get());
}

void SecretKey::Freed::operator()(std::byte* memory) const noexcept { sodium_free(memory); }

SecretKey::Code SecretKey::code_of(std::string_view label,
                                   std::span<const std::byte> bytes) const noexcept {
    std::array<unsigned char, kLabelBytes> padded{};
    std::memcpy(padded.data(), label.data(), std::min(label.size(), padded.size()));
    Code code;
    crypto_generichash_state state;
    crypto_generichash_init(&state, raw({bytes_.get(), kBytes}), kBytes, code.size());
    crypto_generichash_update(&state, padded.data(), padded.size());
    crypto_generichash_update(&state, raw(bytes), bytes.size());
    crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(code.data()), code.size());
    sodium_memzero(&state, sizeof state);
    return code;
}

bool is_same(std::span<const std::byte, SecretKey::kBytes> one,
             std::span<const std::byte, SecretKey::kBytes> other) noexcept {
    return sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

SecretKey::Code draw_nonce() {
    SecretKey::Code nonce;
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
}

}  // namespace verbatim
