// 32 random bytes as hexadecimal digits.
#include "new_key.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <verbatim/driver/descriptor.hpp>
#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace cli {
namespace {

using verbatim::Errc;
using verbatim::Error;

constexpr std::size_t kKeyBytes = 32;

[[noreturn]] void fail(const std::string& path, int error) {
    throw Error(error == EACCES ? Errc::permission_denied : Errc::invalid_argument, path,
                "cannot make this key file (" + verbatim::errno_text(error) + ")",
                error == EEXIST
                    ? "it may hold a key in use: remove it first, or choose another name"
                    : "check its directory");
}

}  // namespace

void NewKey::add_to(CLI::App& app) {
    command_ = app.add_subcommand("key", "make a file with a new key for [connect] key_file");
    command_->add_option("file", path_, "the file, which must not exist")->required();
}

int NewKey::operator()() const {
    if (sodium_init() < 0) throw Error(Errc::device_error, "libsodium", "no random bytes");
    const verbatim::Descriptor file(
        open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) fail(path_, errno);
    std::array<unsigned char, kKeyBytes> key;
    std::array<char, 2 * kKeyBytes + 1> text;
    randombytes_buf(key.data(), key.size());
    sodium_bin2hex(text.data(), text.size(), key.data(), key.size());
    text.back() = '\n';
    const ssize_t written = write(file.get(), text.data(), text.size());
    const int error = written < 0 ? errno : ENOSPC;
    sodium_memzero(key.data(), key.size());
    sodium_memzero(text.data(), text.size());
    if (written == static_cast<ssize_t>(text.size()) && fsync(file.get()) == 0) return 0;
    (void)unlink(path_.c_str());
    fail(path_, error);
}

}  // namespace cli
