// Landings: memory that both processes map, one half for each to write into.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "../meeting.hpp"

namespace verbatim::bench {

// In a memory file that the first side makes.
class Landings {
  public:
    Landings(Side& side, std::size_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
        const int file = side.first() ? make_file() : -1;
        const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/";
        const std::string theirs = side.exchange(path + std::to_string(file));
        map(side.first() ? path + std::to_string(file) : theirs);
        (void)side.exchange("mapped");
        if (file >= 0) close(file);
        own_ = start_ + (side.first() ? 0 : bytes_);
        peer_ = start_ + (side.first() ? bytes_ : 0);
    }
    ~Landings() { munmap(start_, 2 * bytes_); }
    Landings(const Landings&) = delete;
    Landings& operator=(const Landings&) = delete;

    std::byte* own() const noexcept { return own_; }
    std::byte* peer() const noexcept { return peer_; }

  private:
    int make_file() const {
        const int file = memfd_create("bench_core", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, static_cast<off_t>(2 * bytes_)) != 0)
            throw std::runtime_error("no memory file");
        return file;
    }
    void map(const std::string& path) {
        const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "r+"), fclose);
        if (!file) throw std::runtime_error("cannot open the memory file");
        void* memory = mmap(nullptr, 2 * bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                            fileno(file.get()), 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        start_ = static_cast<std::byte*>(memory);
    }

    std::size_t bytes_;
    std::byte *start_ = nullptr, *own_ = nullptr, *peer_ = nullptr;
};

}  // namespace verbatim::bench
