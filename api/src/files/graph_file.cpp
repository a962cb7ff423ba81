// Reads graph files. Nothing of a file is believed before it was checked: neither its numbers, nor
// that it stays as it is. Only placed files are used where they lie, if the caller trusts them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/operations/graph_file.hpp>

#include "class_section.hpp"
#include "graph_format.hpp"

namespace verbatim::objects {
namespace {

constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 30;

// A pipe must not make it wait.
int open_to_read(const std::string& path) {
    const int file =
        ::open(FileHandle::checked_path(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) return file;
    const int error = errno;
    FileHandle(-1, path, true).refuse("it cannot be opened", error);
}

}  // namespace

struct GraphFile::Parts {
    file::FileHeader header;
    struct stat status {};
};

GraphFile::GraphFile(const std::string& path, const RootType& root, const MapOptions& options)
    : handle_(open_to_read(path), path, true) {
    open(root, options);
}
GraphFile::GraphFile(int file, const RootType& root, const MapOptions& options)
    : handle_(file, "of descriptor " + std::to_string(file), false) {
    open(root, options);
}

void GraphFile::refuse(Errc code, const char* cause, const char* remedy) const {
    throw Error(code, "saved graph " + handle_.name(), cause, remedy);
}

void GraphFile::read_at(std::uint64_t offset, void* bytes, std::uint64_t count) const {
    auto* to = static_cast<std::byte*>(bytes);
    while (count > 0) {
        const ssize_t done =
            pread(handle_.file(), to, std::min(count, kMostAtOnce), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) handle_.refuse("it cannot be read", errno);
        if (done == 0) refuse(Errc::corrupt_message, "it is cut short", "save it again");
        to += done;
        offset += static_cast<std::uint64_t>(done);
        count -= static_cast<std::uint64_t>(done);
    }
}

void GraphFile::open(const RootType& root, const MapOptions& options) {
    Parts parts;
    if (fstat(handle_.file(), &parts.status) != 0) handle_.refuse("it is not open", errno);
    if (!S_ISREG(parts.status.st_mode)) handle_.refuse("it is no regular file", EINVAL);
    const auto length = static_cast<std::uint64_t>(parts.status.st_size);
    file::FileHeader& header = parts.header;
    if (length < sizeof header)
        refuse(Errc::invalid_argument, "it is no saved graph", "name a file of save()");
    read_at(0, &header, sizeof header);
    if (header.magic != file::kMagic)
        refuse(Errc::invalid_argument, "it is no saved graph", "name a file of save()");
    if (header.version != file::kVersion)
        throw Error(
            Errc::unsupported, "saved graph " + handle_.name(),
            fmt::format("it has version {}, this program knows {}", header.version, file::kVersion),
            "save it with the version that maps it");
    if (header.header_sum != file::sum_of(header))
        refuse(Errc::corrupt_message, "its header was changed", "save it again");
    check_length(parts);
    check_type(root, parts);
    objects_ = header.objects;
    layout_bytes_ = header.layout_bytes;
    places_ = header.places;
    arrays_ = header.arrays;
    body_sum_ = header.body_sum;
    facts_.told = {header.image_bytes, header.steps, header.references, true};
    if (header.image_bytes > options.max_bytes)
        refuse(Errc::graph_too_large, "its graph is longer than max_bytes", "raise max_bytes");
    if (header.form != file::Form::placed) {
        class_bytes_ = header.base;
        return;
    }
    placed_base_ = header.base;
    placed_root_ = header.root;
    if (header.root % root.info.alignment != 0 || header.root > header.image_bytes ||
        root.info.bytes > header.image_bytes - header.root)
        refuse(Errc::corrupt_message, "its root is outside of it", "save it again");
    check_trust(options);
}

void GraphFile::check_length(const Parts& parts) const {
    const file::FileHeader& header = parts.header;
    const std::uint64_t most_records = header.image_bytes / 8 + 1;
    const bool is_placed = header.form == file::Form::placed;
    if (header.form > file::Form::placed || header.image_bytes == 0 ||
        header.image_bytes > kMaxImageBytes || header.layout_bytes > file::kMostLayoutBytes ||
        header.places > most_records || header.arrays > most_records - header.places ||
        (is_placed ? header.base == 0 || header.base % file::kImageAt != 0
                   : header.base > file::kMostClassBytes))
        refuse(Errc::corrupt_message, "its header contradicts itself", "save it again");
    const std::uint64_t end = file::Sections(header).end;
    if (header.file_bytes != end || static_cast<std::uint64_t>(parts.status.st_size) != end)
        refuse(Errc::corrupt_message, "it is cut short, or too long", "save it again");
}

void GraphFile::check_type(const RootType& root, const Parts& parts) const {
    if (parts.header.fingerprint == root.layout.fingerprint) return;
    std::string theirs(parts.header.layout_bytes, '\0');
    read_at(file::Sections(parts.header).layout, theirs.data(), theirs.size());
    throw Error(Errc::type_mismatch, "saved graph " + handle_.name(),
                "type " + root.info.spelled() + " is not what was saved",
                first_difference(theirs, root.layout.text, "the file", "this program") +
                    "; map it with the definition with which it was saved");
}

// The file may be changed while it is mapped, by all that may write it.
void GraphFile::check_trust(const MapOptions& options) const {
    if (!options.trusted)
        refuse(Errc::unsupported, "it is placed, which cannot be verified",
               "map it with `trusted` if nothing else can write it, or use save()");
    struct stat status {};
    if (fstat(handle_.file(), &status) != 0) handle_.refuse("it is not open", errno);
    const bool is_own = status.st_uid == geteuid() || status.st_uid == 0;
    if (!is_own || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        refuse(Errc::permission_denied, "other users can write it, so it is not to be trusted",
               "chown it, and chmod go-w");
}

PrivateBlock GraphFile::read() {
    file::FileHeader header;
    header.image_bytes = image_bytes();
    header.layout_bytes = layout_bytes_;
    header.places = places_;
    header.arrays = arrays_;
    header.base = class_bytes_;
    const file::Sections sections(header);
    const std::uint64_t all = sections.end - file::kImageAt;
    PrivateBlock block = PrivateBlock::reserve(all);
    block.grow_to(all);
    read_at(file::kImageAt, block.data(), all);
    if (XXH3_64bits(block.data(), all) != body_sum_)
        refuse(Errc::corrupt_message, "its bytes were changed", "save it again");
    const auto* const places =
        reinterpret_cast<const PlaceRecord*>(block.data() + (sections.places - file::kImageAt));
    const auto* const arrays =
        reinterpret_cast<const ArrayRecord*>(block.data() + (sections.arrays - file::kImageAt));
    facts_.places.assign(places, places + places_);
    facts_.arrays.assign(arrays, arrays + arrays_);
    const std::span classes(block.data() + (sections.last - file::kImageAt), class_bytes_);
    if (!file::read_classes(classes, facts_.classes))
        refuse(Errc::corrupt_message, "its classes contradict themselves", "save it again");
    block.trim_to(image_bytes());
    return block;
}

GraphFile::Placed GraphFile::map(bool writable) {
    const PrivateBlock::FilePart part{handle_.file(), file::kImageAt, image_bytes()};
    Placed placed;
    placed.block = PrivateBlock::map(part, writable, placed_base_);
    placed.is_relocated = placed.block.is_empty();
    if (placed.is_relocated) {
        placed.block = PrivateBlock::map(part, true);
        relocate(placed.block.data());
        if (!writable) placed.block.make_read_only();
    }
    placed.root = placed.block.data() + placed_root_;
    return placed;
}

void GraphFile::relocate(std::byte* image) const {
    file::FileHeader header;
    header.form = file::Form::placed;
    header.image_bytes = image_bytes();
    header.layout_bytes = layout_bytes_;
    const file::Sections sections(header);
    std::vector<std::uint64_t> pointers((sections.end - sections.last) / sizeof(std::uint64_t));
    read_at(sections.last, pointers.data(), pointers.size() * sizeof pointers[0]);
    const std::uint64_t delta = reinterpret_cast<std::uint64_t>(image) - placed_base_;
    for (std::uint64_t at = 0; at < pointers.size(); ++at)
        for (std::uint64_t bits = pointers[at]; bits != 0; bits &= bits - 1) {
            const std::uint64_t word = at * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
            std::byte* const field = image + word * sizeof(std::uint64_t);
            if ((word + 1) * sizeof(std::uint64_t) > image_bytes()) return;
            std::uint64_t address = 0;
            std::memcpy(&address, field, sizeof address);
            address += delta;
            std::memcpy(field, &address, sizeof address);
        }
}

}  // namespace verbatim::objects
