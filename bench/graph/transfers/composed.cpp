// verbatim.composed: the objects are made in a composed message, and leave as they lie. Each
// transfer has the sender's look at all references, one write, and the receiver's verification.
#include <verbatim/objects/operations/compose.hpp>

#include "../workloads/all.hpp"
#include "graph_transfer.hpp"

namespace bench_graph {
namespace {

template <class W>
class ComposedTransfer final : public Subject {
  public:
    using Root = typename W::Root;
    explicit ComposedTransfer(W workload) : workload_(std::move(workload)) {
        message_.set_root(*make_composed(workload_, message_));
    }

    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return wire_bytes_; }
    void transfer() override {
        receiver_.channel().send(static_cast<std::uint64_t>(Request::receive));
        const auto report = verbatim::send(*connection_, message_);
        wire_bytes_ = report.composed ? report.wire_bytes : 0;
        receiver_.channel().receive();
    }
    bool verify() override {
        receiver_.channel().send(static_cast<std::uint64_t>(Request::sum));
        return wire_bytes_ != 0 && receiver_.channel().receive() == sum_of(message_.root());
    }
    double other_process_ns() const override { return receiver_.cpu_ns(); }

  private:
    W workload_;
    ReceiverProcess receiver_{[bytes = workload_.bytes() * 2](Channel& channel) {
        serve_graphs<Root>(channel, bytes, {});
    }};
    std::unique_ptr<verbatim::Context> context_ = make_context(std::size_t{1} << 20, 0);
    std::unique_ptr<verbatim::Connection> connection_ = connect_to(*context_, receiver_.channel());
    verbatim::ComposedMessage<Root> message_ = verbatim::compose<Root>(*connection_);
    std::uint64_t wire_bytes_ = 0;
};

}  // namespace

void add_composed_transfers() {
    for_each_composed([](const auto& workload) {
        using W = std::decay_t<decltype(workload)>;
        if (workload.place == Place::arena)
            add_subject(workload.name, "verbatim.composed",
                        [=] { return std::make_unique<ComposedTransfer<W>>(workload); });
    });
}

}  // namespace bench_graph
