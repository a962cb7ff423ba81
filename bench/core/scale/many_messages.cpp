// One message under way, over one of many connections: ping-pong.
#include <random>

#include "../workloads.hpp"
#include "many.hpp"

namespace verbatim::bench {
namespace {

// The second side answers where the message came from.
template <Choice choice>
class ManyEnd {
  public:
    ManyEnd(Side& side, const Case& of) : side_(side), many_(side) {
        many_.add(choice == Choice::one ? 1 : of.connections);
        many_.settle();
    }
    std::byte* claim() { return reinterpret_cast<std::byte*>(&number_); }
    void post() { many_.send(next(), std::as_bytes(std::span(&number_, 1))); }
    const std::byte* take() {
        taken_ = many_.receive();
        return reinterpret_cast<const std::byte*>(&taken_);
    }
    void release() {}
    void progress() { many_.poll(); }
    void finish() { many_.check(); }

  private:
    std::size_t next() {
        if (!side_.first()) return many_.from();
        if (choice == Choice::random) return random_() % many_.size();
        return turn_++ % many_.size();
    }

    Side& side_;
    Many many_;
    std::minstd_rand random_{1};
    std::size_t turn_ = 0;
    std::uint64_t number_ = 0, taken_ = 0;
};

}  // namespace

void add_many(Subjects& all) {
    add(all, "verbatim.one", run_case<ManyEnd<Choice::one>>, {&kHot16});
    add(all, "verbatim.in_turn", run_case<ManyEnd<Choice::in_turn>>,
        {&kHot16, &kArmed17, &kArmed64, &kArmed256, &kArmed512});
    add(all, "verbatim.random", run_case<ManyEnd<Choice::random>>,
        {&kHot16, &kArmed17, &kArmed64, &kArmed256, &kArmed512});
}

}  // namespace verbatim::bench
