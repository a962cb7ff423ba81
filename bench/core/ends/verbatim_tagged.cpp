// Verbatim's tagged messages, copied and lent, and its byte stream as ends. Memory lies in arenas.
#include <deque>
#include <optional>
#include <vector>

#include <verbatim/core/stream.hpp>
#include <verbatim/core/tagged.hpp>

#include "../workloads.hpp"
#include "verbatim_link.hpp"

namespace verbatim::bench {
namespace {

// Memory for the messages under way.
class Slots {
  public:
    Slots(Arena& arena, const Case& of)
        : arena_(arena),
          stride_((of.bytes + 63) / 64 * 64),
          all_(of.window * stride_),
          start_(static_cast<std::byte*>(arena.allocate(all_, 64))) {
        std::ranges::fill(std::span(start_, all_), std::byte{0});
    }
    ~Slots() { arena_.deallocate(start_, all_, 64); }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;
    std::byte* at(std::size_t slot) const noexcept { return start_ + slot * stride_; }

  private:
    Arena& arena_;
    std::size_t stride_, all_;
    std::byte* start_;
};

template <bool lends>
class TaggedEnd {
  public:
    TaggedEnd(Side& side, const Case& of)
        : link_(side),
          out_(link_->arena(), of),
          in_(link_->receive_arena(), of),
          bytes_(of.bytes),
          sends_(of.window),
          receives_(of.window) {
        if (lends) tagged_.set_lend_from(1);
        if (!lends && bytes_ > tagged_.longest_copied())
            throw std::runtime_error("a copied message has at most 256 KiB");
        for (std::size_t slot = 0; slot < receives_.size(); ++slot) post_receive(slot);
    }

    std::byte* claim() {
        const std::optional<SendRequest>& before = sends_[sent_ % sends_.size()];
        while (before && before->result() == Errc::would_block) link_.progress();
        return out_.at(sent_ % sends_.size());
    }
    void post() {
        const std::size_t slot = sent_++ % sends_.size();
        const std::span<const std::byte> message(out_.at(slot), bytes_);
        if (lends) sends_[slot].emplace(message);
        Errc error = Errc::ok;
        while ((error = lends ? tagged_.try_send(kTag, *sends_[slot])
                              : tagged_.try_send(kTag, message)) == Errc::would_block)
            link_.progress();
        require(*link_, error);
    }
    const std::byte* take() {
        const TaggedReceive& next = *receives_[taken_ % receives_.size()];
        while (next.result() == Errc::would_block) link_.progress();
        require(*link_, next.result());
        return in_.at(taken_ % receives_.size());
    }
    void release() { post_receive(taken_++ % receives_.size()); }
    void progress() { link_.progress(); }
    void finish() {
        for (const std::optional<SendRequest>& one : sends_)
            while (one && one->result() == Errc::would_block) link_.progress();
        link_.finish();
    }

  private:
    static constexpr std::uint64_t kTag = 0x1337;
    void post_receive(std::size_t slot) {
        tagged_.receive(receives_[slot].emplace(kTag, std::span(in_.at(slot), bytes_)));
    }

    Link link_;
    Tagged tagged_{*link_};
    Slots out_, in_;
    std::size_t bytes_;
    std::deque<std::optional<SendRequest>> sends_;
    std::deque<std::optional<TaggedReceive>> receives_;
    std::uint64_t sent_ = 0, taken_ = 0;
};

class StreamEnd {
  public:
    StreamEnd(Side& side, const Case& of) : link_(side), out_(of.bytes), in_(of.bytes) {}
    std::byte* claim() { return out_.data(); }
    void post() {
        for (std::size_t done = 0; done < out_.size();) {
            std::size_t some = 0;
            const Errc error = stream_.try_write(std::span(out_).subspan(done), some);
            done += some;
            if (error == Errc::would_block) link_.progress();
            require(*link_, error);
        }
    }
    const std::byte* take() {
        for (std::size_t done = 0; done < in_.size();) {
            std::size_t some = 0;
            const Errc error = stream_.try_read(std::span(in_).subspan(done), some);
            done += some;
            if (error == Errc::would_block) link_.progress();
            require(*link_, error);
        }
        return in_.data();
    }
    void release() {}
    void progress() { link_.progress(); }
    void finish() { link_.finish(); }

  private:
    Link link_;
    Stream stream_{*link_};
    std::vector<std::byte> out_, in_;
};

}  // namespace

void add_verbatim_tagged(Subjects& all) {
    add(all, "verbatim.tagged", run_case<TaggedEnd<false>>,
        {&kMessage8, &kMessage1k, &kMessage64k, &kRate8, &kThroughput1k, &kThroughput64k});
    add(all, "verbatim.tagged_lent", run_case<TaggedEnd<true>>,
        {&kMessage64k, &kMessage1m, &kThroughput64k, &kThroughput1m});
    add(all, "verbatim.stream", run_case<StreamEnd>, kMessageCases);
}

}  // namespace verbatim::bench
