// Huge pages that a test or a benchmark reserves for itself, which takes root and memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace verbatim {

inline std::uint64_t number_in(const std::string& path) {
    std::uint64_t number = 0;
    std::ifstream(path) >> number;
    return number;
}

// So many more pages of one size than were there, until its end.
class ReservedPages {
  public:
    ReservedPages(std::size_t page_bytes, std::uint64_t wanted)
        : pool_("/sys/kernel/mm/hugepages/hugepages-" + std::to_string(page_bytes / 1024) + "kB/"),
          before_(number_in(pool_ + "nr_hugepages")) {
        set(before_ + wanted);
        suffices_ = free() >= wanted;
    }
    ~ReservedPages() { set(before_); }
    ReservedPages(const ReservedPages&) = delete;
    ReservedPages& operator=(const ReservedPages&) = delete;
    bool suffices() const { return suffices_; }
    std::uint64_t free() const { return number_in(pool_ + "free_hugepages"); }
    // All but so many are taken away again.
    void keep(std::uint64_t pages) { set(before_ + pages); }

  private:
    void set(std::uint64_t pages) const { std::ofstream(pool_ + "nr_hugepages") << pages; }
    std::string pool_;
    std::uint64_t before_;
    bool suffices_ = false;
};

}  // namespace verbatim
