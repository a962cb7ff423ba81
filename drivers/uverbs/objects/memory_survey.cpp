// Reading of /proc/self/smaps and /proc/self/maps, which is the first without what it says of each
// mapping (proc(5)).
#include "memory_survey.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include <verbatim/driver/descriptor.hpp>

#include "../../softqueue/page.hpp"

namespace verbatim::uverbs {
namespace {

std::string_view next_line(std::string_view& text) noexcept {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
}

std::string_view next_word(std::string_view& line) noexcept {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    return word;
}

std::uint64_t number(std::string_view& text, int base) noexcept {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error == std::errc()) text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

void skip(std::string_view& text) noexcept {
    text.remove_prefix(std::min<std::size_t>(1, text.size()));
}

struct Entry {
    Mapped mapped;
    std::uint64_t device = 0, inode = 0;
    bool shared = false;
    std::string_view name;
};

// 7f0000000000-7f0000001000 rw-p 00000000 00:00 0      [heap]
Entry read_header(std::string_view line) noexcept {
    Entry entry;
    entry.mapped.range.first = number(line, 16);
    skip(line);
    entry.mapped.range.end = number(line, 16);
    const std::string_view rights = next_word(line);
    const auto has = [&](std::size_t at, char what) {
        return rights.size() > at && rights[at] == what;
    };
    entry.mapped.protection = (has(0, 'r') ? PROT_READ : 0) | (has(1, 'w') ? PROT_WRITE : 0) |
                              (has(2, 'x') ? PROT_EXEC : 0);
    entry.shared = !has(3, 'p');
    std::string_view offset = next_word(line), device = next_word(line), inode = next_word(line);
    entry.mapped.offset = number(offset, 16);
    const auto major = static_cast<unsigned>(number(device, 16));
    skip(device);
    entry.device = makedev(major, static_cast<unsigned>(number(device, 16)));
    entry.inode = number(inode, 10);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    entry.name = line;
    return entry;
}

// Heap, or what mmap() gave; the program may have named it.
bool is_program_memory(const Entry& entry) noexcept {
    return !entry.shared && entry.inode == 0 &&
           (entry.name.empty() || entry.name == "[heap]" || entry.name.starts_with("[anon:"));
}

// False: something is special about the mapping that would be lost.
bool read_flags(std::string_view flags, Advice& advice) noexcept {
    // Readable, writable, may be made executable too, accounted, tracked for changes.
    constexpr std::array<std::string_view, 7> kOrdinary{"rd", "wr", "mr", "mw", "me", "ac", "sd"};
    bool ordinary = true;
    for (std::string_view flag; !(flag = next_word(flags)).empty();) {
        if (flag == "dc")
            advice.not_forked = true;
        else if (flag == "dd")
            advice.not_dumped = true;
        else if (flag == "hg")
            advice.huge = true;
        else if (flag == "nh")
            advice.never_huge = true;
        else if (flag == "nr")
            advice.unreserved = true;
        else if (std::ranges::find(kOrdinary, flag) == kOrdinary.end())
            ordinary = false;
    }
    return ordinary;
}

void add(const Entry& entry, const PageRange& range, Survey& result) {
    if (entry.mapped.ours) result.page_files.push_back(entry.mapped);
    if (!entry.mapped.range.overlaps(range)) return;
    Mapped part = entry.mapped;
    part.range = part.range.within(range);
    part.offset += part.range.first - entry.mapped.range.first;
    result.inside.push_back(part);
}

// Fills `text`; its length, or -1. A read gives a page or so.
ssize_t read_once(int file, std::string& text) {
    std::size_t had = 0;
    while (had < text.size()) {
        const ssize_t got = read(file, text.data() + had, text.size() - had);
        if (got < 0) return -1;
        if (got == 0) break;
        had += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(had);
}

// Allocates nothing between two reads: a heap that grows meanwhile is told of twice.
bool read_all(const char* path, std::string& text) {
    const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    if (!file) return false;
    for (std::size_t room = 256 << 10;; room *= 2) {
        text.resize(room);
        const ssize_t length = read_once(file.get(), text);
        if (length < 0 || lseek(file.get(), 0, SEEK_SET) < 0) return false;
        text.resize(static_cast<std::size_t>(length));
        if (text.size() < room) return true;
    }
}

}  // namespace

PageRange pages_of(std::uint64_t start, std::uint64_t bytes) noexcept {
    return {start & ~(softnic::kPageBytes - 1),
            (start + bytes + softnic::kPageBytes - 1) & ~(softnic::kPageBytes - 1)};
}

bool Survey::covers(const PageRange& range) const noexcept {
    std::uint64_t at = range.first;
    for (const Mapped& part : inside) {
        if (part.range.first != at) return false;
        at = part.range.end;
    }
    return at == range.end;
}

bool survey_text(std::string_view text, const PageRange& range, std::uint64_t device,
                 std::uint64_t inode, Survey& result) {
    constexpr std::string_view kFlags = "VmFlags:";
    Entry entry;
    while (!text.empty()) {
        std::string_view line = next_line(text);
        if (line.starts_with(kFlags)) {
            line.remove_prefix(kFlags.size());
            const bool ordinary = read_flags(line, entry.mapped.advice);
            constexpr int kRights = PROT_READ | PROT_WRITE;
            entry.mapped.plain =
                ordinary && is_program_memory(entry) && entry.mapped.protection == kRights;
            add(entry, range, result);
        } else if (!line.empty() && line.find(' ') > line.find('-')) {
            entry = read_header(line);
            entry.mapped.ours = inode != 0 && entry.device == device && entry.inode == inode;
            ++result.mappings;
            if (entry.name.find("[aio]") != entry.name.npos ||
                entry.name.find("[io_uring]") != entry.name.npos)
                result.device_writes = true;
        }
    }
    return result.mappings != 0;
}

bool survey(const PageRange& range, std::uint64_t device, std::uint64_t inode, Survey& result) {
    std::string text;
    return read_all("/proc/self/smaps", text) && survey_text(text, range, device, inode, result);
}

bool mapped_for_writing(std::uint64_t device, std::uint64_t inode, std::vector<Mapped>& found) {
    std::string maps;
    if (!read_all("/proc/self/maps", maps)) return false;
    for (std::string_view text = maps; !text.empty();) {
        const Entry entry = read_header(next_line(text));
        if (entry.device == device && entry.inode == inode && entry.shared &&
            (entry.mapped.protection & PROT_WRITE) != 0)
            found.push_back(entry.mapped);
    }
    return true;
}

}  // namespace verbatim::uverbs
