// A graph file holds one saved graph (docs/saved-graphs.md). Here is what saving and mapping need
// beside the types. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <verbatim/objects/operations/copying.hpp>
#include <verbatim/objects/operations/transfer.hpp>
#include <verbatim/objects/private_block.hpp>

namespace verbatim {

struct SaveOptions {
    // The file is on its device before save() returns, and so is its name. Without it, a crash of
    // the machine may leave an empty file.
    bool sync = true;
};

struct MapOptions {
    // The caller trusts all that could ever write the file, now and as long as it is mapped. Placed
    // files are then used as they are.
    bool trusted = false;
    // A longer graph is refused.
    std::uint64_t max_bytes = objects::kMaxImageBytes;
};

// The result of one save().
struct SaveReport {
    std::uint64_t objects = 0;
    std::uint64_t object_bytes = 0;
    std::uint64_t file_bytes = 0;
};

namespace objects {

// A descriptor, and the name for messages.
class FileHandle {
  public:
    // Owned if `is_owned`.
    FileHandle(int file, std::string name, bool is_owned) noexcept
        : file_(file), is_owned_(is_owned), name_(std::move(name)) {}
    FileHandle(FileHandle&& other) noexcept
        : file_(std::exchange(other.file_, -1)),
          is_owned_(other.is_owned_),
          name_(std::move(other.name_)) {}
    FileHandle& operator=(FileHandle&&) = delete;
    ~FileHandle();

    // The system would read a path only as far as a zero byte. Throws Error(invalid_argument).
    static std::string checked_path(const std::string& path);

    int file() const noexcept { return file_; }
    const std::string& name() const noexcept { return name_; }
    // Throws Error(code of errno).
    [[noreturn]] void refuse(const std::string& call, int error) const;

  private:
    int file_;
    bool is_owned_;
    std::string name_;
};

// A file that is being written. With a path, it gets its name in the end, and replaces the file
// that had it. Not committed, it goes.
class GraphFileWriter {
  public:
    // Throws Error(permission_denied | invalid_argument | out_of_memory), as all others do.
    explicit GraphFileWriter(const std::string& path);
    // A regular file that is open for reading and writing; what it holds is replaced.
    explicit GraphFileWriter(int file);
    ~GraphFileWriter();
    GraphFileWriter(const GraphFileWriter&) = delete;
    GraphFileWriter& operator=(const GraphFileWriter&) = delete;

    // The graph as an image, which is verified when it is mapped.
    SaveReport write(Packing& packing, const RootType& root);
    // The graph as it will lie at an address, which is chosen here.
    SaveReport write_placed(Packing& packing, Mending& mending, const RootType& root);
    void commit(const SaveOptions& options);

  private:
    struct Body;
    void write_at(std::uint64_t offset, const void* bytes, std::uint64_t count);
    void write_staged(Staging& staging);
    std::uint64_t write_tail(const Body& body);
    SaveReport finish(Body& body);
    void sync_folder() const;

    std::string path_, temporary_;
    FileHandle handle_;
};

// A file that is mapped. The constructor checks its header against the type.
class GraphFile {
  public:
    // Throws Error(invalid_argument: not a saved graph | unsupported: another version, or placed
    // and not trusted | corrupt_message | type_mismatch | permission_denied | out_of_memory).
    GraphFile(const std::string& path, const RootType& root, const MapOptions& options);
    GraphFile(int file, const RootType& root, const MapOptions& options);

    bool is_placed() const noexcept { return placed_base_ != 0; }
    std::uint64_t objects() const noexcept { return objects_; }
    std::uint64_t image_bytes() const noexcept { return facts_.told.cursor; }
    const ImageFacts& facts() const noexcept { return facts_; }

    // A private copy of the image, whose sum was checked, and of the facts. Throws
    // Error(corrupt_message | out_of_memory).
    PrivateBlock read();
    // The objects of a placed file in their place, or relocated. Costs nothing for each object.
    struct Placed {
        PrivateBlock block;
        std::byte* root = nullptr;
        bool is_relocated = false;
    };
    Placed map(bool writable);

  private:
    struct Parts;
    void open(const RootType& root, const MapOptions& options);
    void read_at(std::uint64_t offset, void* bytes, std::uint64_t count) const;
    void check_length(const Parts& parts) const;
    void check_type(const RootType& root, const Parts& parts) const;
    void check_trust(const MapOptions& options) const;
    void relocate(std::byte* image) const;
    [[noreturn]] void refuse(Errc code, const char* cause, const char* remedy) const;

    FileHandle handle_;
    ImageFacts facts_;
    std::uint64_t objects_ = 0;
    std::uint64_t layout_bytes_ = 0, class_bytes_ = 0;
    std::uint64_t places_ = 0, arrays_ = 0;
    std::uint64_t placed_base_ = 0;  // 0: an image
    std::uint64_t placed_root_ = 0;  // offset
    std::uint64_t body_sum_ = 0;
};

}  // namespace objects
}  // namespace verbatim
