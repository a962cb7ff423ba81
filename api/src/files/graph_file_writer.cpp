// Writes a graph file: the image as it is staged, or placed as a whole; then the rest, then the
// header.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/operations/graph_file.hpp>

#include "class_section.hpp"
#include "graph_format.hpp"

namespace verbatim::objects {
namespace {

constexpr std::uint64_t kReadBytes = std::uint64_t{1} << 20;

// Placed files lie here, each at an address of its own. Programs, libraries and heaps do not.
constexpr std::uint64_t kPlacesFrom = std::uint64_t{1} << 45;
constexpr std::uint64_t kPlacesBytes = std::uint64_t{1} << 45;
constexpr std::uint64_t kPlaceStep = std::uint64_t{2} << 20;

#if defined(__SANITIZE_THREAD__)
constexpr bool kMayChoose = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kMayChoose = false;  // it has other uses for most addresses
#else
constexpr bool kMayChoose = true;
#endif
#else
constexpr bool kMayChoose = true;
#endif

// The name of the file that a save replaces: a link is followed, as programs expect of a name that
// is written to. What is no file is not replaced.
std::string followed(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::path real = FileHandle::checked_path(path);
    fs::file_status status = fs::symlink_status(real, error);
    if (fs::is_symlink(status)) {
        real = fs::canonical(path, error);
        if (error) FileHandle(-1, path, true).refuse("its link leads nowhere", error.value());
        status = fs::status(real, error);
    }
    if (fs::exists(status) && !fs::is_regular_file(status))
        FileHandle(-1, path, true).refuse("it is no regular file", EINVAL);
    return real;
}

int make_temporary(std::string& name, const std::string& path) {
    name = path + ".XXXXXX";
    const int file = mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) return file;
    const int error = errno;
    FileHandle(-1, path, true).refuse("it cannot be made", error);
}

PrivateBlock reserve_place(std::uint64_t bytes) {
    std::random_device random;
    for (int tries = 0; kMayChoose && tries < 64; ++tries) {
        const std::uint64_t drawn = std::uint64_t{random()} << 32 | random();
        const std::uint64_t base = kPlacesFrom + drawn % (kPlacesBytes / kPlaceStep) * kPlaceStep;
        if (PrivateBlock block = PrivateBlock::reserve(bytes, base); !block.is_empty())
            return block;
    }
    return PrivateBlock::reserve(bytes);
}

// Calls with each word of the image that is an address in it, or of its end.
template <class Call>
void each_address(const std::byte* image, std::uint64_t bytes, Call&& call) {
    const auto base = reinterpret_cast<std::uint64_t>(image);
    for (std::uint64_t at = 0; at + sizeof base <= bytes; at += sizeof base) {
        std::uint64_t word = 0;
        std::memcpy(&word, image + at, sizeof word);
        if (word - base <= bytes) call(at);
    }
}
bool has_address(const std::byte* image, std::uint64_t bytes) {
    bool has = false;
    each_address(image, bytes, [&has](std::uint64_t) { has = true; });
    return has;
}

}  // namespace

// What follows the image.
struct GraphFileWriter::Body {
    file::FileHeader header;
    std::string_view layout;
    std::span<const PlaceRecord> places;
    std::span<const ArrayRecord> arrays;
    std::vector<std::uint64_t> pointers;
    std::string classes;
};

GraphFileWriter::GraphFileWriter(const std::string& path)
    : path_(followed(path)), handle_(make_temporary(temporary_, path_), path, true) {}

GraphFileWriter::GraphFileWriter(int file)
    : handle_(file, "of descriptor " + std::to_string(file), false) {
    struct stat status {};
    if (fstat(file, &status) != 0) handle_.refuse("it is not open", errno);
    if (!S_ISREG(status.st_mode)) handle_.refuse("it is no regular file", EINVAL);
    const int flags = fcntl(file, F_GETFL);
    if ((flags & O_ACCMODE) != O_RDWR || (flags & O_APPEND) != 0)
        handle_.refuse("it must be open for reading and writing, and not for appending", EINVAL);
    if (ftruncate(file, 0) != 0) handle_.refuse("it cannot be written", errno);
}

GraphFileWriter::~GraphFileWriter() {
    if (!temporary_.empty()) unlink(temporary_.c_str());
}

void GraphFileWriter::write_at(std::uint64_t offset, const void* bytes, std::uint64_t count) {
    const auto* from = static_cast<const std::byte*>(bytes);
    while (count > 0) {
        const ssize_t done =
            pwrite(handle_.file(), from, std::min(count, kReadBytes), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) handle_.refuse("it cannot be written", errno);
        from += done;
        offset += static_cast<std::uint64_t>(done);
        count -= static_cast<std::uint64_t>(done);
    }
}

void GraphFileWriter::write_staged(Staging& staging) {
    for (const Piece& piece : staging.pieces())
        write_at(file::kImageAt + piece.offset, piece.from, piece.bytes);
    for (const Patch& patch : staging.patches())
        write_at(file::kImageAt + patch.offset, patch.data, patch.bytes);
}

SaveReport GraphFileWriter::write(Packing& packing, const RootType& root) {
    const auto drop = [this] {
        if (ftruncate(handle_.file(), 0) != 0) handle_.refuse("it cannot be written", errno);
    };
    const ImageFacts facts =
        run_whole(packing, drop, [this](Staging& staging) { write_staged(staging); });
    Body body;
    body.layout = root.layout.text;
    body.header.fingerprint = root.layout.fingerprint;
    body.header.image_bytes = facts.told.cursor;
    body.header.steps = facts.told.steps;
    body.header.references = facts.told.references;
    body.header.objects = packing.objects();
    body.places = facts.places;
    body.arrays = facts.arrays;
    body.classes = file::text_of(facts.classes);
    body.header.base = body.classes.size();
    return finish(body);
}

SaveReport GraphFileWriter::write_placed(Packing& packing, Mending& mending, const RootType& root) {
    PrivateBlock block = reserve_place(kMaxImageBytes);
    const ImageFacts facts = pack_into(block, packing);
    const std::uint64_t bytes = facts.told.cursor;
    block.grow_to(round_to(bytes, 8));
    // After the walk, addresses of this range are those that it wrote, if none was there before.
    while (has_address(block.data(), bytes)) {
        PrivateBlock other = reserve_place(kMaxImageBytes);
        other.grow_to(round_to(bytes, 8));
        std::memcpy(other.data(), block.data(), bytes);
        block = std::move(other);
    }
    mend_at(block.data(), facts, mending);
    Body body;
    body.layout = root.layout.text;
    body.header.form = file::Form::placed;
    body.header.fingerprint = root.layout.fingerprint;
    body.header.image_bytes = bytes;
    body.header.objects = mending.objects();
    body.header.base = reinterpret_cast<std::uint64_t>(block.data());
    body.header.root = reinterpret_cast<std::uint64_t>(mending.root()) - body.header.base;
    body.pointers.resize(round_to(bytes, file::kBytesPerMapWord) / file::kBytesPerMapWord);
    each_address(block.data(), bytes, [&body](std::uint64_t at) {
        const std::uint64_t word = at / sizeof(std::uint64_t);
        body.pointers[word / 64] |= std::uint64_t{1} << (word % 64);
    });
    write_at(file::kImageAt, block.data(), bytes);
    return finish(body);
}

// Returns the sum of all but the header, as it is in the file: patches have changed what was
// written before.
std::uint64_t GraphFileWriter::write_tail(const Body& body) {
    const file::Sections sections(body.header);
    write_at(sections.layout, body.layout.data(), body.layout.size());
    write_at(sections.places, body.places.data(), body.places.size_bytes());
    write_at(sections.arrays, body.arrays.data(), body.arrays.size_bytes());
    write_at(sections.last, body.pointers.data(), body.pointers.size() * sizeof body.pointers[0]);
    write_at(sections.last, body.classes.data(), body.classes.size());
    if (ftruncate(handle_.file(), static_cast<off_t>(sections.end)) != 0)
        handle_.refuse("it cannot be written", errno);
    std::vector<std::byte> buffer(std::min(kReadBytes, sections.end - file::kImageAt));
    XXH3_state_t* const state = XXH3_createState();
    if (state == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state);
    std::uint64_t at = file::kImageAt;
    while (at < sections.end) {
        const ssize_t count = pread(handle_.file(), buffer.data(),
                                    std::min<std::uint64_t>(buffer.size(), sections.end - at),
                                    static_cast<off_t>(at));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        XXH3_64bits_update(state, buffer.data(), static_cast<std::size_t>(count));
        at += static_cast<std::uint64_t>(count);
    }
    const std::uint64_t sum = XXH3_64bits_digest(state);
    const int error = errno;
    XXH3_freeState(state);
    if (at < sections.end) handle_.refuse("it cannot be read back", error);
    return sum;
}

SaveReport GraphFileWriter::finish(Body& body) {
    file::FileHeader& header = body.header;
    header.layout_bytes = body.layout.size();
    header.places = body.places.size();
    header.arrays = body.arrays.size();
    if (header.layout_bytes > file::kMostLayoutBytes || body.classes.size() > file::kMostClassBytes)
        throw Error(Errc::unsupported, "saved graph",
                    "its layout takes more than 1 MiB to describe, or its classes 64 MiB",
                    "bind fewer types in one graph, or shorten their names");
    header.file_bytes = file::Sections(header).end;
    header.body_sum = write_tail(body);
    header.header_sum = file::sum_of(header);
    write_at(0, &header, sizeof header);
    return {header.objects, header.image_bytes, header.file_bytes};
}

void GraphFileWriter::commit(const SaveOptions& options) {
    if (options.sync && fsync(handle_.file()) != 0)
        handle_.refuse("it cannot be written to its device", errno);
    if (temporary_.empty()) return;
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
        handle_.refuse("it cannot be named", errno);
    temporary_.clear();
    if (options.sync) sync_folder();
}

// The name survives a crash of the machine, too.
void GraphFileWriter::sync_folder() const {
    const std::size_t slash = path_.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return;
    fsync(file);
    close(file);
}

}  // namespace verbatim::objects
