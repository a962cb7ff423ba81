#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/operations/graph_file.hpp>

namespace verbatim::objects {
namespace {

Errc code_of(int error) noexcept {
    switch (error) {
        case EACCES:
        case EPERM:
        case EROFS:
            return Errc::permission_denied;
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
        case ENOMEM:
            return Errc::out_of_memory;
        default:
            return Errc::invalid_argument;
    }
}

const char* remedy_of(Errc code, bool has_path) noexcept {
    if (code == Errc::permission_denied) return "allow this user the access, or choose another";
    if (code == Errc::out_of_memory) return "make room on its file system";
    return has_path ? "name a file in a folder that exists"
                    : "give the descriptor of a regular file, open for reading, and for writing to "
                      "save";
}

}  // namespace

FileHandle::~FileHandle() {
    if (is_owned_ && file_ >= 0) close(file_);
}

std::string FileHandle::checked_path(const std::string& path) {
    const std::size_t zero = path.find('\0');
    if (zero == std::string::npos) return path;
    throw Error(Errc::invalid_argument, "file " + path.substr(0, zero),
                "a zero byte follows in its path", "give a path without one");
}

void FileHandle::refuse(const std::string& call, int error) const {
    const Errc code = code_of(error);
    throw Error(code, "file " + name_, call + ": " + std::strerror(error),
                remedy_of(code, is_owned_));
}

}  // namespace verbatim::objects
