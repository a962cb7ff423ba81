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

const char* remedy_of(Errc code) noexcept {
    if (code == Errc::permission_denied) return "allow this user the access, or choose another";
    if (code == Errc::out_of_memory) return "make room on its file system";
    return "name a file in a folder that exists";
}

}  // namespace

FileHandle::~FileHandle() {
    if (is_owned_ && file_ >= 0) close(file_);
}

void FileHandle::refuse(const std::string& call, int error) const {
    const Errc code = code_of(error);
    throw Error(code, "file " + name_, call + ": " + std::strerror(error), remedy_of(code));
}

}  // namespace verbatim::objects
