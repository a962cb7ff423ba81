// Challenge, answer, conclusion.
#include "proof.hpp"

#include <utility>

#include <fmt/format.h>

#include "bytes.hpp"

namespace verbatim {
namespace {

using Step = Proof::Step;
constexpr std::uint32_t kScheme = 1;

bool has_nonce(Step step) noexcept { return step != Step::conclusion; }
bool has_code(Step step) noexcept { return step != Step::challenge; }

[[noreturn]] void broken_proof(const std::string& object, const char* what) {
    throw Error(Errc::protocol_error, object, fmt::format("broken proof: {}", what),
                "check that both sides run released versions; please report it if they do");
}

}  // namespace

std::vector<std::byte> encode_proof(const Proof& proof) {
    ByteWriter out;
    out.put(static_cast<std::uint32_t>(proof.step)).put(kScheme);
    if (has_nonce(proof.step)) out.put(proof.nonce);
    if (has_code(proof.step)) out.put(proof.code);
    return out.take();
}

Proof parse_proof(std::span<const std::byte> body, const std::string& object) {
    ByteReader in(body);
    const auto step = in.get<std::uint32_t>(), scheme = in.get<std::uint32_t>();
    if (in.failed()) broken_proof(object, "too short");
    if (scheme != kScheme)
        throw Error(
            Errc::unsupported, object,
            fmt::format("the peer proves itself by scheme {}, this side by {}", scheme, kScheme),
            "run the same version of Verbatim on both sides");
    if (step < 1 || step > 3) broken_proof(object, "unknown step");
    Proof proof{static_cast<Step>(step)};
    if (has_nonce(proof.step)) in.get(proof.nonce);
    if (has_code(proof.step)) in.get(proof.code);
    if (in.failed() || in.left() != 0) broken_proof(object, "wrong length");
    return proof;
}

Prover::Prover(std::shared_ptr<const SecretKey> key, Role role)
    : key_(std::move(key)),
      role_(role),
      due_(role == Role::caller ? Step::answer : Step::challenge) {}

std::vector<std::byte> Prover::begin() {
    auto body = encode_proof({Step::challenge, draw_nonce()});
    transcript_ = encode_frame(FrameType::proof, body);
    return body;
}

std::vector<std::byte> Prover::hear(std::span<const std::byte> body, const std::string& object) {
    const Proof proof = parse_proof(body, object);
    if (is_over_ || proof.step != due_) broken_proof(object, "not its turn");
    if (proof.step == Step::challenge) return answer(body, proof);
    if (proof.step == Step::answer) return conclude(body, proof, object);
    check(proof.code, Role::caller, object);
    is_over_ = true;
    return {};
}

// The transcript ends before the code of the answer, which covers it.
std::vector<std::byte> Prover::answer(std::span<const std::byte> body, const Proof&) {
    transcript_ = encode_frame(FrameType::proof, body);
    Proof mine{Step::answer, draw_nonce()};
    const auto said = encode_frame(FrameType::proof, encode_proof(mine));
    transcript_.insert(transcript_.end(), said.begin(),
                       said.end() - static_cast<std::ptrdiff_t>(mine.code.size()));
    mine.code = code_of(Role::listener);
    due_ = Step::conclusion;
    return encode_proof(mine);
}

std::vector<std::byte> Prover::conclude(std::span<const std::byte> body, const Proof& answer,
                                        const std::string& object) {
    const auto said = encode_frame(FrameType::proof, body);
    transcript_.insert(transcript_.end(), said.begin(),
                       said.end() - static_cast<std::ptrdiff_t>(answer.code.size()));
    check(answer.code, Role::listener, object);
    is_over_ = true;
    return encode_proof({Step::conclusion, {}, code_of(Role::caller)});
}

SecretKey::Code Prover::code_of(Role role) const noexcept {
    return key_->code_of(
        role == Role::caller ? "verbatim proof of caller" : "verbatim proof of listener",
        transcript_);
}

void Prover::check(const SecretKey::Code& code, Role of, const std::string& object) const {
    if (is_same(code, code_of(of))) return;
    throw Error(Errc::permission_denied, object, "the peer's proof is wrong: it has another key",
                "set key_file of [connect] to the same key on both sides");
}

std::unique_ptr<Seals> Prover::seals() const {
    const auto caller = key_->code_of("verbatim seals of caller", transcript_),
               listener = key_->code_of("verbatim seals of listener", transcript_);
    const bool calls = role_ == Role::caller;
    return std::unique_ptr<Seals>(
        new Seals{Seal(calls ? caller : listener), Seal(calls ? listener : caller)});
}

}  // namespace verbatim
