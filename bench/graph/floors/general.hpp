// The general floor: a visited table at the sender, a full check at the receiver, no protocol. Both
// halves know the types when they are compiled and nothing about this graph.
#pragma once

#include <time.h>

#include "../subject.hpp"
#include "../workloads/workload.hpp"
#include "image_reader.hpp"
#include "image_writer.hpp"

namespace bench_graph {

template <class W>
class GeneralFloor final : public Subject {
  public:
    using Root = typename W::Root;
    // `is_timed`: receiver_ns() is asked for.
    explicit GeneralFloor(W workload, bool is_timed = false)
        : workload_(std::move(workload)), is_timed_(is_timed) {}

    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return bytes_; }
    void transfer() override {
        bytes_ = writer_.write(*sent_);
        if (!is_timed_) return void(received_ = reader_.read(bytes_));
        const double before = cpu_ns();
        received_ = reader_.read(bytes_);
        reader_ns_ += cpu_ns() - before;
    }
    double receiver_ns() const override { return reader_ns_; }
    bool verify() override { return sum_of(*received_) == sum_of(*sent_); }

  private:
    static double cpu_ns() {
        timespec now{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
    }

    W workload_;
    bool is_timed_;
    std::unique_ptr<GraphMemory> source_ = make_memory(workload_.place, workload_.bytes());
    const Root* sent_ = workload_.make(*source_);
    WarmBlock image_{workload_.bytes() + 4096};
    ImageWriter<Root, typename W::Targets> writer_{source_->extent(), image_};
    ImageReader<Root, typename W::Targets> reader_{image_};
    std::uint64_t bytes_ = 0;
    double reader_ns_ = 0;
    const Root* received_ = nullptr;
};

// The bytes of the same image, copied once.
template <class W>
class ImageCopy final : public Subject {
  public:
    explicit ImageCopy(const W& workload) : objects_(workload.objects()), from_(workload.bytes()) {
        const auto source = make_memory(workload.place, workload.bytes());
        const auto* root = workload.make(*source);
        bytes_ = ImageWriter<typename W::Root, typename W::Targets>(source->extent(), from_)
                     .write(*root);
    }
    std::uint64_t objects() const override { return objects_; }
    std::uint64_t bytes() const override { return bytes_; }
    void transfer() override { std::memcpy(to_.data(), from_.data(), bytes_); }
    bool verify() override { return std::memcmp(to_.data(), from_.data(), bytes_) == 0; }

  private:
    std::uint64_t objects_;
    WarmBlock from_;
    WarmBlock to_{from_.size()};
    std::uint64_t bytes_ = 0;
};

}  // namespace bench_graph
