// Proving lets the two sides of a side channel prove to each other that they have the same key, in
// steps that do not wait. Afterwards the channel seals its frames. Threads: one at a time.
#pragma once

#include "proof.hpp"
#include "side_channel.hpp"

namespace verbatim {

class Proving {
  public:
    Proving(std::shared_ptr<const SecretKey> key, Prover::Role role)
        : prover_(std::move(key), role), must_begin_(role == Prover::Role::caller) {}

    // Goes on as far as it can. True: the peer has proven itself. Throws Error: permission_denied
    // (another key, or none), timeout, what a refusal says, protocol_error, peer_lost.
    bool go_on(SideChannel& channel, Deadline deadline) {
        if (std::exchange(must_begin_, false)) channel.say(FrameType::proof, prover_.begin());
        while (!prover_.is_over()) {
            const auto frame = channel.receive(FrameType::proof, deadline);
            if (!frame) return false;
            const auto answer = prover_.hear(frame->body, channel.name());
            if (!answer.empty()) channel.say(FrameType::proof, answer);
            if (prover_.is_over()) channel.seal(prover_.seals());
        }
        return true;
    }

  private:
    Prover prover_;
    bool must_begin_;
};

}  // namespace verbatim
