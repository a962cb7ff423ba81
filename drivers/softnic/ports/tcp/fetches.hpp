// The reads and atomic operations of a requester, from their questions until their results are
// taken. Owner: the tcp port. Threads: the one inside the send gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "../../keys/pieces.hpp"
#include "../../rings/remote_atomic.hpp"
#include "read_results.hpp"
#include "request_frames.hpp"

namespace verbatim::softnic {

// Bytes of the next part of `left`, where `room` bytes of payload are possible; 0: wait for more.
// Parts end where an aligned word of the responder's memory does, and are not small without need.
std::uint64_t next_part(std::uint64_t address, std::uint64_t left, std::uint64_t room) noexcept;

// In the order of their questions. Owner and threads: as Fetches.
class FetchList {
  public:
    explicit FetchList(ReadResults& results) noexcept : results_(results) {}

    struct Fetch {
        std::uint64_t total = 0;  // bytes
        std::uint64_t asked = 0;
        std::uint64_t taken = 0;
        std::uint64_t number = 0;  // 0: not all of it was asked for yet
        bool atomic = false;
    };
    // False: there is no room for another one.
    bool begin(std::uint64_t bytes) noexcept;
    Fetch& newest() noexcept { return list_[(begun_ - 1) % kQuestions]; }
    bool has_one() const noexcept { return begun_ - taken_ == 1; }
    // Calls ask(), which is false where there is no room, for what is left of the newest one; what
    // has come makes room for more. True: all was asked for.
    template <class Ask>
    bool ask_all(const PieceList& into, Ask&& ask) noexcept {
        Fetch& fetch = newest();
        for (;;) {
            while (fetch.asked != fetch.total && ask()) {
            }
            if (fetch.asked == fetch.total) return true;
            if (!has_one() || results_.ready() == 0) return false;
            take(fetch, into);
        }
    }

    // Of the oldest one, whose last question has this number: something of its result has come. The
    // second one takes that; true once it was all.
    bool has_result(std::uint64_t number) const noexcept;
    bool take_result(const PieceList& into) noexcept;

  private:
    bool take(Fetch& fetch, const PieceList& into) noexcept;
    void take_word(const PieceList& into) noexcept;

    ReadResults& results_;
    std::uint64_t begun_ = 0, taken_ = 0;
    std::array<Fetch, kQuestions> list_{};
};

class Fetches {
  public:
    // All outlive this.
    Fetches(RequestFrames& frames, ReadResults& results, FetchList& list) noexcept
        : frames_(frames), results_(results), list_(list) {}

    // False: there is no room for another read.
    bool begin(std::uint64_t bytes) noexcept { return list_.begin(bytes); }
    // Asks for what is left of the read that was begun last, as far as there is room. The number of
    // the last frame, once all was asked for; else 0.
    std::uint64_t ask(std::uint64_t address, std::uint32_t key, const PieceList& into) noexcept;
    // A whole operation; the number of its frame, or 0: there is no room.
    std::uint64_t ask(const RemoteAtomic& operation) noexcept;
    // True once after frames were committed.
    bool take_news() noexcept { return std::exchange(news_, false); }

  private:
    bool ask_once(std::uint64_t address, std::uint32_t key, FetchList::Fetch& fetch) noexcept;

    RequestFrames& frames_;
    ReadResults& results_;
    FetchList& list_;
    std::uint64_t last_ = 0;  // number of the last question
    bool news_ = false;
};

}  // namespace verbatim::softnic
