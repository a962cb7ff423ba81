// The general floor: a visited table at the sender, a full check at the receiver, no protocol. Both
// halves know the types when they are compiled and nothing about this graph.
#pragma once

#include "../subject.hpp"
#include "../workloads/workload.hpp"
#include "image_reader.hpp"
#include "image_writer.hpp"

namespace bench_graph {

template <class W>
class GeneralFloor final : public Subject {
  public:
    using Root = typename W::Root;
    explicit GeneralFloor(W workload) : workload_(std::move(workload)) {}

    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return bytes_; }
    void transfer() override {
        bytes_ = writer_.write(*sent_);
        received_ = reader_.read(bytes_);
    }
    bool verify() override { return sum_of(*received_) == sum_of(*sent_); }

  private:
    W workload_;
    std::unique_ptr<GraphMemory> source_ = make_memory(workload_.place, workload_.bytes());
    const Root* sent_ = workload_.make(*source_);
    WarmBlock image_{workload_.bytes() + 4096};
    ImageWriter<Root, typename W::Targets> writer_{source_->extent(), image_};
    ImageReader<Root, typename W::Targets> reader_{image_};
    std::uint64_t bytes_ = 0;
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
