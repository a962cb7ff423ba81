// floor of maps: a dump by hand. Keys and entries in a row, one copy to the receiver's buffer, and
// a new map of them there, in memory that is taken back as a whole. An ordered map is built with
// hints, a hashed one with all its buckets reserved.
#include <cstring>
#include <stdexcept>

#include "../memory/wire.hpp"
#include "../subject.hpp"
#include "../workloads/maps.hpp"

namespace bench_graph {
namespace {

class DumpWriter {
  public:
    explicit DumpWriter(std::byte* to) : first_(to), to_(to) {}
    template <class T>
    void add(const T& value) {
        add(&value, sizeof value);
    }
    void add(const std::pmr::string& text) {
        add(static_cast<std::uint32_t>(text.size()));
        add(text.data(), text.size());
    }
    std::uint64_t bytes() const { return static_cast<std::uint64_t>(to_ - first_); }

  private:
    void add(const void* from, std::size_t bytes) {
        std::memcpy(to_, from, bytes);
        to_ += bytes;
    }
    std::byte* first_;
    std::byte* to_;
};

class DumpReader {
  public:
    DumpReader(const std::byte* from, std::uint64_t bytes) : from_(from), end_(from + bytes) {}
    bool at_end() const { return from_ == end_; }
    template <class T>
    T take() {
        T value;
        std::memcpy(&value, take(sizeof value), sizeof value);
        return value;
    }
    std::string_view take_text() {
        const auto bytes = take<std::uint32_t>();
        return {reinterpret_cast<const char*>(take(bytes)), bytes};
    }

  private:
    const std::byte* take(std::size_t bytes) {
        if (bytes > static_cast<std::size_t>(end_ - from_))
            throw std::runtime_error("map floor: the dump is too short");
        const std::byte* taken = from_;
        from_ += bytes;
        return taken;
    }
    const std::byte* from_;
    const std::byte* end_;
};

template <class Map>
class MapFloor final : public Subject {
  public:
    explicit MapFloor(const Maps<Map>& workload) : workload_(workload) {}
    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return bytes_; }
    void transfer() override {
        DumpWriter writer(wire_.send_buffer());
        writer.add(std::uint64_t{sent_->entries.size()});
        for (const auto& [key, entry] : sent_->entries) {
            writer.add(key);
            writer.add(entry);
        }
        bytes_ = writer.bytes();
        read(wire_.carry(bytes_));
    }
    bool verify() override { return sum_of(*received_) == sum_of(*sent_); }

  private:
    void read(const std::byte* from) {
        received_memory_.reset();
        received_ = make_in(received_memory_, MapRoot<Map>{Map(&received_memory_)});
        DumpReader reader(from, bytes_);
        const auto count = reader.take<std::uint64_t>();
        if constexpr (kHashed<Map>) received_->entries.reserve(count);
        while (!reader.at_end()) {
            if constexpr (kHasText<Map>)
                insert(reader, reader.take_text());
            else
                insert(reader, reader.take<std::int32_t>());
        }
    }
    template <class Key>
    void insert(DumpReader& reader, Key key) {
        const auto entry = reader.take<Entry>();
        if constexpr (kHashed<Map>)
            received_->entries.emplace(key, entry);
        else
            received_->entries.emplace_hint(received_->entries.end(), key, entry);
    }

    Maps<Map> workload_;
    WarmMemory memory_{workload_.bytes()};
    const MapRoot<Map>* sent_ = workload_.make(memory_);
    Wire wire_{workload_.bytes()};
    WarmMemory received_memory_{workload_.bytes()};
    MapRoot<Map>* received_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace

void add_map_floors() {
    for_each_map([]<class Map>(const Maps<Map>& workload) {
        add_subject(workload.name, "floor",
                    [=] { return std::make_unique<MapFloor<Map>>(workload); });
    });
}

}  // namespace bench_graph
