// Proofs are the frames by which two sides show each other that they have the same key, and the
// pure half of that exchange: frames in, frames out (docs/authentication.md). Threads: one at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../authentication/seal.hpp"
#include "hello.hpp"

namespace verbatim {

// The body of a frame.
struct Proof {
    enum class Step : std::uint32_t { challenge = 1, answer = 2, conclusion = 3 };
    Step step = Step::challenge;
    SecretKey::Code nonce{};  // of steps 1 and 2
    SecretKey::Code code{};   // of steps 2 and 3
};

std::vector<std::byte> encode_proof(const Proof& proof);
// Throws Error(protocol_error | unsupported) about `object`.
Proof parse_proof(std::span<const std::byte> body, const std::string& object);

class Prover {
  public:
    enum class Role : std::uint8_t { caller, listener };

    Prover(std::shared_ptr<const SecretKey> key, Role role);

    // The caller's first frame: its body.
    std::vector<std::byte> begin();
    // Takes the peer's next proof. The body to answer with; empty: none. Throws
    // Error(permission_denied): the peer has another key. Error(protocol_error): not its turn.
    std::vector<std::byte> hear(std::span<const std::byte> body, const std::string& object);
    // The peer has proven itself.
    bool is_over() const noexcept { return is_over_; }
    // Of all frames behind the proofs. Once it is over.
    std::unique_ptr<Seals> seals() const;

  private:
    std::vector<std::byte> answer(std::span<const std::byte> body, const Proof& challenge);
    std::vector<std::byte> conclude(std::span<const std::byte> body, const Proof& answer,
                                    const std::string& object);
    void check(const SecretKey::Code& code, Role of, const std::string& object) const;
    SecretKey::Code code_of(Role role) const noexcept;

    std::shared_ptr<const SecretKey> key_;
    Role role_;
    Proof::Step due_;
    std::vector<std::byte> transcript_;
    bool is_over_ = false;
};

}  // namespace verbatim
