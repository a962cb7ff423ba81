// Reads segments of other processes. Their bytes are not trusted: sizes and offsets are those of
// the version, counts are cut to what this side has room for, texts end within their arrays.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "directory.hpp"
#include "segment_format.hpp"

namespace verbatim::telemetry {
namespace {

constexpr unsigned kTries = 1000;  // of a slot whose writer is faster than this reader

// The bytes of a segment: a file, which its process writes meanwhile, or a text.
class Source {
  public:
    explicit Source(std::string_view bytes) : bytes_(bytes) {}
    explicit Source(const Descriptor& file) : file_(&file) {}
    // By system calls, as a mapping could be cut off under the reader. False: it is too short.
    bool read(std::size_t offset, void* to, std::size_t bytes) const {
        if (file_ != nullptr)
            return pread(file_->get(), to, bytes, static_cast<off_t>(offset)) ==
                   static_cast<ssize_t>(bytes);
        if (offset > bytes_.size() || bytes > bytes_.size() - offset) return false;
        std::memcpy(to, bytes_.data() + offset, bytes);
        return true;
    }

  private:
    std::string_view bytes_;
    const Descriptor* file_ = nullptr;
};

[[noreturn]] void refuse(Errc code, const std::string& path, std::string cause) {
    throw Error(code, path, std::move(cause),
                "use the `verbatim` of the library that the process uses; or remove the file");
}

Header header_of(const Source& source, const std::string& path) {
    Header header;
    if (!source.read(0, &header, sizeof header) || header.magic != kMagic)
        refuse(Errc::corrupt_message, path, "it is no segment of telemetry, or not complete yet");
    if (header.version != kVersion || header.bytes != kSegmentBytes)
        refuse(Errc::version_mismatch, path,
               fmt::format("it has version {} and {} bytes, this program reads version {} with {}",
                           header.version, header.bytes, kVersion, kSegmentBytes));
    return header;
}

// False: the slot was never written, is free, or changes faster than it can be read.
template <class Counts>
bool read_slot(const Source& source, std::size_t at, std::size_t copy_bytes, Counts& counts) {
    for (unsigned attempt = 0; attempt < kTries; ++attempt) {
        std::uint64_t before = 0, after = 0;
        if (!source.read(at, &before, sizeof before) || before == 0) return false;
        if (!source.read(at + 64 + before % 2 * copy_bytes, &counts, sizeof counts) ||
            !source.read(at, &after, sizeof after))
            return false;
        if (before == after) return counts.id != 0;
    }
    return false;
}

template <class Counts>
void read_section(const Source& source, const Header& header, Section section,
                  std::vector<Counts>& into) {
    const SectionPlan& plan = plan_of(section);
    static_assert(std::is_trivially_copyable_v<Counts>);
    const std::size_t used =
        std::min<std::size_t>(header.used[static_cast<std::size_t>(section)], plan.slots);
    for (std::size_t i = 0; i < used; ++i) {
        Counts counts;
        if (read_slot(source, offset_of(section) + i * plan.slot_bytes(), plan.copy_bytes(),
                      counts))
            into.push_back(counts);
    }
}

// A text that is printed: no control characters, no bytes beyond ASCII.
template <std::size_t kSize>
void clean(std::array<char, kSize>& text) {
    text.back() = '\0';
    for (char& c : text)
        if (c != '\0' && (c < ' ' || c > '~')) c = '?';
}

void clean(Process& process) {
    for (ConnectionCounts& one : process.connections) {
        clean(one.peer), clean(one.transport);
        one.channel_count = std::min<std::uint64_t>(one.channel_count, one.channels.size());
        for (ChannelCounts& channel : one.channels)
            channel.channel = std::min(channel.channel, kOtherChannels);
    }
    for (NamedHistogram& one : process.histograms)
        one.channel = std::min(one.channel, kOtherChannels);
    for (DeviceCounts& one : process.devices) clean(one.name), clean(one.kind);
    for (PollerCounts& one : process.pollers) clean(one.name);
    for (ArenaCounts& one : process.arenas) clean(one.name);
}

Process read_all(const Source& source, const std::string& path) {
    Header header = header_of(source, path);
    clean(header.program);
    Process process;
    process.path = path;
    process.pid = header.pid;
    process.program = text_of(header.program);
    process.interval_ns = header.interval_ns;
    read_section(source, header, Section::devices, process.devices);
    read_section(source, header, Section::lanes, process.lanes);
    read_section(source, header, Section::pollers, process.pollers);
    read_section(source, header, Section::arenas, process.arenas);
    read_section(source, header, Section::connections, process.connections);
    read_section(source, header, Section::histograms, process.histograms);
    clean(process);
    return process;
}

// CPU time and core of a thread that runs (proc(5), "stat": fields 14, 15 and 39).
void ask_kernel(std::uint64_t pid, PollerCounts& poller) {
    std::ifstream file(fmt::format("/proc/{}/task/{}/stat", pid, poller.thread));
    std::string line;
    if (!std::getline(file, line) || line.rfind(')') == std::string::npos) return;
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    const auto tick_ns = static_cast<std::uint64_t>(1'000'000'000 / sysconf(_SC_CLK_TCK));
    std::string word;
    for (int field = 3; field <= 39 && rest >> word; ++field) {
        if (field == 14 || field == 15)
            poller.cpu_ns += std::strtoull(word.c_str(), nullptr, 10) * tick_ns;
        if (field == 39) poller.core = std::strtol(word.c_str(), nullptr, 10);
    }
}

}  // namespace

std::uint64_t Histogram::quantile(double share) const noexcept {
    const std::uint64_t all = count();
    if (all == 0) return 0;
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(all - 1)) + 1;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts.size(); ++i)
        if ((seen += counts[i]) >= wanted) return end_of(i);
    return end_of(counts.size() - 1);
}

Process parse_segment(std::string_view bytes) { return read_all(Source(bytes), "<bytes>"); }

Process read_segment(const std::string& path) {
    const Descriptor file = open_segment(path);
    const bool runs = is_in_use(file);
    Process process = read_all(Source(file), path);
    process.runs = runs;
    for (PollerCounts& poller : process.pollers) {
        poller.cpu_ns = 0;
        poller.core = -1;
        if (runs) ask_kernel(process.pid, poller);
    }
    return process;
}

}  // namespace verbatim::telemetry
