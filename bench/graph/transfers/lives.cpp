// Graphs after they were received. forward_points: what sending a received graph on costs the
// forwarder alone, as it came and by a walk; its floor is a memcpy of the image. map_N: opening a
// file with N points counts as one object, placed and as an image; its floor maps the bytes and
// reads the first.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <verbatim/objects.hpp>

#include "../subject.hpp"
#include "../workloads/sequences.hpp"
#include "graph_transfer.hpp"
#include "receiver_process.hpp"

namespace bench_graph {
namespace {

// The other process makes the graph, sends it once, and receives it each time that it is told to.
void send_and_take_back(Channel& channel, const Points& points) {
    const auto context = make_context(points.bytes(), 2 * points.bytes());
    const auto connection = accept_one(*context, channel);
    const Cloud* const cloud = points.make(context->arena());
    verbatim::send(*connection, *cloud);
    std::optional<verbatim::Received<Cloud>> received;
    while (true) {
        if (static_cast<Request>(channel.receive()) == Request::sum) {
            channel.send(sum_of(**received));
            continue;
        }
        received.reset();
        received.emplace(verbatim::receive<Cloud>(*connection));
        channel.send(0);
    }
}

class Forward final : public Subject {
  public:
    explicit Forward(bool as_it_came)
        : graph_(verbatim::receive<Cloud>(*connection_, {.forwardable = as_it_came})) {}
    std::uint64_t objects() const override { return points_.objects(); }
    std::uint64_t bytes() const override { return graph_.report().object_bytes; }
    void transfer() override {
        other_.channel().send(static_cast<std::uint64_t>(Request::receive));
        verbatim::send(*connection_, graph_);
        other_.channel().receive();
    }
    bool verify() override {
        other_.channel().send(static_cast<std::uint64_t>(Request::sum));
        return other_.channel().receive() == sum_of(*graph_);
    }

  private:
    Points points_{};
    ReceiverProcess other_{
        [points = points_](Channel& channel) { send_and_take_back(channel, points); }};
    std::unique_ptr<verbatim::Context> context_ =
        make_context(2 * points_.bytes(), 2 * points_.bytes());
    std::unique_ptr<verbatim::Connection> connection_ = connect_to(*context_, other_.channel());
    verbatim::Received<Cloud> graph_;
};

class CopyOfImage final : public Subject {
  public:
    std::uint64_t objects() const override { return points_.objects(); }
    std::uint64_t bytes() const override { return from_.size(); }
    void transfer() override { std::memcpy(to_.data(), from_.data(), from_.size()); }
    bool verify() override { return to_ == from_; }

  private:
    Points points_{};
    std::vector<std::byte> from_ = std::vector<std::byte>(points_.bytes(), std::byte{7});
    std::vector<std::byte> to_ = std::vector<std::byte>(points_.bytes());
};

struct MappedPoint {
    double x = 0, y = 0;
    MappedPoint* next = nullptr;
};
using MappedPoints = std::vector<MappedPoint>;

// A file without a name.
class File {
  public:
    File(std::size_t count, bool is_placed) {
        if (file_ < 0) throw std::runtime_error("bench_graph: no file");
        MappedPoints points(count);
        for (std::size_t i = 0; i < count; ++i)
            points[i] = {static_cast<double>(i), 1, &points[(i + 1) % count]};
        if (is_placed)
            verbatim::save_placed(file_, points, {.sync = false});
        else
            verbatim::save(file_, points, {.sync = false});
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { close(file_); }
    int descriptor() const { return file_; }

  private:
    int file_ = memfd_create("bench graph", MFD_CLOEXEC);
};

class MapFile final : public Subject {
  public:
    MapFile(std::size_t count, bool is_placed) : file_(count, is_placed), count_(count) {
        // As open(2) makes files that others must not write.
        if (fchmod(file_.descriptor(), 0600) != 0) throw std::runtime_error("bench_graph: no mode");
    }
    std::uint64_t objects() const override { return 1; }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        graph_.reset();
        graph_.emplace(verbatim::map<const MappedPoints>(file_.descriptor(), {.trusted = true}));
    }
    bool verify() override {
        const MappedPoints& points = **graph_;
        return points.size() == count_ && !graph_->report().relocated &&
               points.back().next == &points.front();
    }

  private:
    File file_;
    std::size_t count_;
    std::optional<verbatim::Received<const MappedPoints>> graph_;
};

class MapBytes final : public Subject {
  public:
    explicit MapBytes(std::size_t count)
        : file_(count, true), bytes_(count * sizeof(MappedPoint)) {}
    std::uint64_t objects() const override { return 1; }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        void* const memory = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
        if (memory == MAP_FAILED) throw std::runtime_error("bench_graph: no mapping");
        first_ = *static_cast<const volatile char*>(memory);
        munmap(memory, bytes_);
    }
    bool verify() override { return first_ == 'v'; }

  private:
    File file_;
    std::size_t bytes_;
    char first_ = 0;
};

}  // namespace

void add_lives() {
    const std::string forward = "forward_points";
    add_subject(forward, "verbatim.forward", [] { return std::make_unique<Forward>(true); });
    add_subject(forward, "verbatim.walk", [] { return std::make_unique<Forward>(false); });
    add_subject(forward, "floor", [] { return std::make_unique<CopyOfImage>(); });
    for (const unsigned power : {10u, 16u, 22u}) {
        const std::string name = fmt::format("map_2^{}", power);
        const std::size_t count = std::size_t{1} << power;
        add_subject(name, "verbatim.placed",
                    [=] { return std::make_unique<MapFile>(count, true); });
        add_subject(name, "verbatim.image",
                    [=] { return std::make_unique<MapFile>(count, false); });
        add_subject(name, "floor", [=] { return std::make_unique<MapBytes>(count); });
    }
}

}  // namespace bench_graph
