// What a stranger may send to a listener's port: frames and the hello, the refusal, the bye and the
// proof in them. The first byte of the input says where the stream is cut. No input proves a key.
#include "bootstrap/hello.hpp"
#include "bootstrap/proof.hpp"
#include "bootstrap/side_channel.hpp"
#include "fuzz_target.hpp"

using namespace verbatim;

namespace {

Hello example() {
    Hello hello;
    hello.queue_pair.kind = 1;
    hello.ring_address = hello.credit_address = 1 << 20;
    hello.ring_bytes = 1 << 20;
    hello.device_name = "softnic";
    return hello;
}

// Both sides, which have heard the frames before.
struct Provers {
    std::shared_ptr<const SecretKey> key =
        std::make_shared<const SecretKey>(SecretKey::Code{std::byte{7}});
    Prover caller{key, Prover::Role::caller}, listener{key, Prover::Role::listener};
    Provers() { (void)caller.begin(); }
};

void hear(const Frame& frame, Provers& provers) {
    const Proof proof = parse_proof(frame.body, "stranger");
    fuzz::require(encode_proof(proof) == frame.body);
    for (Prover* const prover : {&provers.caller, &provers.listener}) try {
            fuzz::require(!prover->hear(frame.body, "stranger").empty());
        } catch (const Error& error) {
            fuzz::require(error.code() == Errc::protocol_error ||
                          error.code() == Errc::permission_denied);
        }
    fuzz::require(!provers.caller.is_over() && !provers.listener.is_over());
}

void parse(const Frame& frame, Provers& provers) {
    switch (frame.type) {
        case FrameType::hello:
        case FrameType::move: {
            const Hello hello = parse_hello(frame.body, "stranger");
            fuzz::require(hello.device_name.size() <= 64);
            // What was accepted can be said and is understood again as the same.
            const auto again = encode_hello(hello);
            fuzz::require(encode_hello(parse_hello(again)) == again);
            check_compatible(example(), hello, "stranger");
            break;
        }
        case FrameType::refused:
            fuzz::require(parse_refusal(frame.body).code != Errc::ok);
            break;
        case FrameType::bye:
            (void)parse_bye(frame.body, "stranger");
            break;
        case FrameType::proof:
            hear(frame, provers);
            break;
        case FrameType::ready:
            break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const auto cut = static_cast<std::size_t>(input.number(1));
    FrameReader reader;
    Provers provers;
    try {
        while (input.left() > 0) {
            reader.feed(input.take(cut + 1), "stranger");
            while (const auto frame = reader.next("stranger")) parse(*frame, provers);
        }
    } catch (const Error& error) {
        fuzz::require(error.code() != Errc::ok && !error.cause().empty());
    }
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    const auto add = [&](std::uint8_t cut, std::vector<std::vector<std::byte>> frames) {
        std::vector<std::byte> seed{std::byte{cut}};
        for (const auto& frame : frames) seed.insert(seed.end(), frame.begin(), frame.end());
        seeds.push_back(std::move(seed));
    };
    const auto hello = encode_frame(FrameType::hello, encode_hello(example()));
    const auto ready = encode_frame(FrameType::ready, {});
    const auto bye = encode_frame(FrameType::bye, encode_bye({4096, 64}));
    const auto refused =
        encode_frame(FrameType::refused, encode_refusal({Errc::permission_denied, "no"}));
    const auto proof = [](Proof::Step step) {
        return encode_frame(FrameType::proof, encode_proof({step}));
    };
    add(255, {proof(Proof::Step::challenge), proof(Proof::Step::conclusion), hello});
    add(90, {proof(Proof::Step::answer)});
    add(255, {hello});
    add(6, {hello, ready, bye});
    add(40, {refused});
    add(0, {bye, bye});
    return seeds;
}
