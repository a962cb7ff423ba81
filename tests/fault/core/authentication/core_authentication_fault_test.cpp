// Connections by a key: with the same one, another one, one on one side only; strangers beside
// honest callers, and attackers who change, repeat or send back what they hear.
#include <filesystem>
#include <list>
#include <thread>

#include "bootstrap/proof.hpp"
#include "core_authentication.hpp"
#include "core_hand_made_peer.hpp"
#include "core_scripted_device.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::Keys;
using test::local;
using test::RawSocket;
using test::says;
using Bytes = std::vector<std::byte>;

Deadline soon() { return Deadline::after(30s); }

class Authentication : public testing::Test {
  protected:
    Config with(const std::string& key_file, std::chrono::milliseconds timeout = 20s) {
        Config config = test::small_config();
        config.connect.key_file = key_file;
        config.connect.timeout = timeout;
        return config;
    }
    Keys keys_;
};

int ask(const Config& config, std::uint16_t port) {
    Context context(config);
    Connection connection = context.connect(local(port));
    const std::string text = "with a key";
    connection.send_message(1, std::as_bytes(std::span(text)), {}, soon());
    return connection.receive_message(soon()).payload().size() == text.size() ? 0 : 1;
}

TEST_F(Authentication, by_the_same_key_lets_two_processes_meet) {
    const Config config = with(keys_.one());
    softnic::test::Child asking([&](softnic::test::Wire& wire) {
        std::uint16_t port = 0;
        return wire.get(port) ? ask(config, port) : 2;
    });
    Context context(config);
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(asking.wire().put(listener.port()));
    Connection connection = listener.accept(soon());
    const Message message = connection.receive_message(soon());
    connection.send_message(2, message.payload(), {}, soon());
    EXPECT_EQ(asking.reap(), 0);
}

// The code of the caller's error, in a process of its own: 100 and more says that it has the text.
int code_of_call(const Config& config, std::uint16_t port, const std::string& part) {
    try {
        Context context(config);
        (void)context.connect(local(port));
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        const bool has_part = std::string(error.what()).find(part) != std::string::npos;
        return static_cast<int>(error.code()) + (has_part ? 100 : 0);
    }
    return 0;
}

struct OneSided {
    std::string caller, listener, says, logged;
};

void expect_refused(const Config& calling, const Config& listening, const OneSided& of) {
    softnic::test::Child asking([&](softnic::test::Wire& wire) {
        std::uint16_t port = 0;
        return wire.get(port) ? code_of_call(calling, port, of.says) : 2;
    });
    test::CapturedLog log;
    Context context(listening);
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(asking.wire().put(listener.port()));
    std::thread stranger([&] {
        EXPECT_EQ(asking.reap(), 100 + static_cast<int>(Errc::permission_denied));
        EXPECT_NO_THROW(ask(listening, listener.port()));  // an honest one still gets in
    });
    Connection connection = listener.accept(soon());
    const Message message = connection.receive_message(soon());
    connection.send_message(2, message.payload(), {}, soon());
    stranger.join();
    const std::string logged = log.text();
    EXPECT_NE(logged.find(of.logged), std::string::npos) << logged;
}

TEST_F(Authentication, by_another_key_or_on_one_side_only_is_refused_with_the_setting_to_change) {
    const OneSided cases[] = {
        {keys_.one(), keys_.other(), "it has another key; set key_file", "it has another key"},
        {"", keys_.one(), "gave no proof of a key, and this side demands one; set key_file",
         "no proof of a key"},
        {keys_.one(), "", "this listener has none; set key_file", "this listener has none"},
    };
    for (const OneSided& one : cases) expect_refused(with(one.caller), with(one.listener), one);
}

// ---- attackers ----

TEST_F(Authentication, by_ones_own_messages_sent_back_is_refused_to_a_listener) {
    for (int first = 0; first < 2; ++first) {
        test::Stranger mirror([](const RawSocket& caller) {
            for (Bytes bytes = caller.get(FrameHeader::kBytes); !bytes.empty();
                 bytes = caller.get(1))
                caller.put(bytes);
        });
        Context context(with(keys_.one()));
        const Error error = error_of([&] { context.connect(local(mirror.port())); });
        EXPECT_EQ(error.code(), Errc::protocol_error) << error.what();
    }
}

// The challenge in the form of an answer, with the caller's own nonce.
TEST_F(Authentication, by_a_mirrored_nonce_is_refused) {
    test::Stranger mirror([](const RawSocket& caller) {
        const Proof said = parse_proof(test::hear(caller), "test");
        caller.put(encode_frame(FrameType::proof,
                                encode_proof({Proof::Step::answer, said.nonce, said.nonce})));
        caller.get(1 << 16);
    });
    Context context(with(keys_.one()));
    const Error error = error_of([&] { context.connect(local(mirror.port())); });
    EXPECT_EQ(error.code(), Errc::permission_denied);
    says(error, "another key");
}

// A listener without the key that answers with a hello: the caller tells it nothing more.
TEST_F(Authentication, left_out_by_the_listener_is_noticed_before_anything_is_told) {
    Bytes heard;
    {
        test::Stranger rogue([&](const RawSocket& caller) {
            test::LoneEndpoint own(test::small_config());
            caller.put(encode_frame(FrameType::hello, encode_hello(own.endpoint.hello())));
            heard = caller.get(1 << 16);
        });
        Context context(with(keys_.one()));
        const Error error = error_of([&] { context.connect(local(rogue.port())); });
        EXPECT_EQ(error.code(), Errc::permission_denied);
        says(error, "gave no proof");
    }
    FrameReader reader;
    reader.feed(heard, "test");
    ASSERT_EQ(reader.next("test")->type, FrameType::proof);
    ASSERT_EQ(reader.next("test")->type, FrameType::refused);
    EXPECT_FALSE(reader.next("test"));
}

// Serves one caller at a time, until it is told to stop.
class Serving {
  public:
    explicit Serving(const Config& config)
        : context_(config), listener_(context_.listen("127.0.0.1:0")), thread_([this] { run(); }) {}
    ~Serving() {
        stop_ = true;
        thread_.join();
    }
    std::uint16_t port() const { return listener_.port(); }
    int accepted() const { return accepted_; }

  private:
    void run() {
        while (!stop_) try {
                Connection connection = listener_.accept(Deadline::after(20ms));
                ++accepted_;
                const Message message = connection.receive_message(soon());
                connection.send_message(2, message.payload(), {}, soon());
                while (connection.progress() == Errc::ok) connection.pause(1000, soon());
            } catch (const Error&) {
            }
    }
    Context context_;
    Listener listener_;
    std::atomic<bool> stop_{false};
    std::atomic<int> accepted_{0};
    std::thread thread_;
};

TEST_F(Authentication, of_a_recorded_connection_does_not_work_again) {
    test::CapturedLog log;
    Serving serving(with(keys_.one()));
    test::Meddler recorder(serving.port());
    ASSERT_EQ(ask(with(keys_.one()), recorder.port()), 0);
    recorder.stop();
    ASSERT_EQ(serving.accepted(), 1);
    // All that the caller said, said again.
    const RawSocket again = RawSocket::connected(serving.port());
    ASSERT_TRUE(again.put(recorder.said(test::Meddler::by_caller)));
    (void)again.get(1 << 16);  // to the end: it is turned down
    // All that the listener said.
    test::Stranger player([&](const RawSocket& caller) {
        (void)test::hear(caller);
        caller.put(recorder.said(test::Meddler::by_listener));
        caller.get(1 << 16);
    });
    Context context(with(keys_.one()));
    const Error error = error_of([&] { context.connect(local(player.port())); });
    EXPECT_EQ(error.code(), Errc::permission_denied);
    EXPECT_EQ(ask(with(keys_.one()), serving.port()), 0);
    EXPECT_EQ(serving.accepted(), 2);
    EXPECT_NE(log.text().find("the peer's proof is wrong"), std::string::npos);
}

// One bit of one frame, of either side: hello (2 of the listener: 1), and ready.
TEST_F(Authentication, covers_every_byte_of_the_frames_behind_it) {
    test::CapturedLog log;
    Serving serving(with(keys_.one(), 2s));
    for (const bool by_caller : {true, false})
        for (const std::size_t frame : {std::size_t{0}, std::size_t{1}})
            for (const double place : {0.1, 0.4, 0.8, 0.95}) {
                bool has_changed = false;
                test::Meddler meddler(serving.port(), [&](test::Meddler::Said& said) {
                    const std::size_t proofs = by_caller ? 2 : 1;
                    if (said.by_caller != by_caller || said.number != proofs + frame) return;
                    const auto body = said.bytes.size() - FrameHeader::kBytes;
                    const auto at = static_cast<std::size_t>(place * static_cast<double>(body));
                    said.bytes[FrameHeader::kBytes + at] ^= std::byte{4};
                    has_changed = true;
                });
                EXPECT_THROW((void)ask(with(keys_.one(), 2s), meddler.port()), Error)
                    << by_caller << ' ' << frame << ' ' << place;
                meddler.stop();
                EXPECT_TRUE(has_changed);
            }
    EXPECT_EQ(ask(with(keys_.one()), serving.port()), 0);
    EXPECT_NE(log.text().find("wrong seal"), std::string::npos);
}

TEST_F(Authentication, keeps_an_attacker_from_ending_a_connection_as_if_by_a_close) {
    Context calling(with(keys_.one())), listening(with(keys_.one()));
    Listener listener = listening.listen("127.0.0.1:0");
    test::Meddler meddler(listener.port());
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    Connection connection = calling.connect(local(meddler.port()));
    accepting.join();
    test::expect_usable(connection, *accepted);
    meddler.inject(test::Meddler::by_caller, encode_frame(FrameType::bye, encode_bye({0, 0})));
    const Deadline deadline = soon();
    while (accepted->progress() == Errc::ok && !deadline.passed()) accepted->pause(0, deadline);
    EXPECT_EQ(accepted->state(), Errc::protocol_error);
    EXPECT_FALSE(accepted->peer_closed());
}

TEST_F(Authentication, leaves_closes_and_moves_as_they_were) {
    Context calling(with(keys_.one())), listening(with(keys_.one()));
    Listener listener = listening.listen("127.0.0.1:0");
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    std::optional<Connection> connection(calling.connect(local(listener.port())));
    accepting.join();
    const Lane other = calling.make_lane();
    std::atomic<bool> has_moved{false};
    std::thread moving([&] {
        connection->move_to(other);
        has_moved = true;
    });
    while (!has_moved) (void)accepted->progress();
    moving.join();
    test::expect_usable(*connection, *accepted);
    connection.reset();
    const Deadline deadline = soon();
    while (accepted->progress() == Errc::ok && !deadline.passed()) accepted->pause(0, deadline);
    EXPECT_TRUE(accepted->peer_closed());
}

// ---- strangers beside honest callers ----

std::size_t count_of_ring_files() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(entry, gone).string();
        count += target.find("message rings") != std::string::npos;
    }
    return count;
}

// Nobody gets in until each of these has heard something (or, with POLLRDHUP, the end).
void accept_nobody_until(Listener& listener, const std::vector<RawSocket>& strangers, short what) {
    const auto has_come = [&](const RawSocket& one) {
        pollfd entry{one.fd(), what, 0};
        return poll(&entry, 1, 0) == 1;
    };
    const Deadline deadline = soon();
    while (!std::all_of(strangers.begin(), strangers.end(), has_come) && !deadline.passed())
        EXPECT_EQ(error_of([&] { listener.accept(Deadline::after(20ms)); }).code(), Errc::timeout);
    EXPECT_FALSE(deadline.passed());
}

TEST_F(Authentication, costs_no_endpoint_and_no_ring_for_callers_without_the_key) {
    test::CapturedLog log;
    auto counted = std::make_unique<test::ScriptedDevice>();
    test::ScriptedDevice& device = *counted;
    test::LoneEndpoint lone(test::small_config());  // of the strangers
    const Bytes hello = encode_frame(FrameType::hello, encode_hello(lone.endpoint.hello()));
    const std::size_t files = count_of_ring_files();
    Context context(with(keys_.one(), 20s), std::move(counted));
    Listener listener = context.listen("127.0.0.1:0");
    const int regions = device.regions;
    std::vector<RawSocket> strangers;
    for (int i = 0; i < 40; ++i) {
        const RawSocket& one = strangers.emplace_back(RawSocket::connected(listener.port()));
        Prover prover(test::wrong_key(), Prover::Role::caller);
        ASSERT_TRUE(i % 2 == 0 ? one.put(hello)
                               : one.put(encode_frame(FrameType::proof, prover.begin())));
    }
    accept_nobody_until(listener, strangers, POLLIN);
    for (std::size_t i = 0; i < strangers.size(); ++i) {
        const Bytes answer = strangers[i].get(FrameHeader::kBytes);
        EXPECT_EQ(parse_frame_header(answer, "test").type,
                  i % 2 == 0 ? FrameType::refused : FrameType::proof);
        // A proof by another key, and the hello behind it at once.
        if (i % 2 == 0) continue;
        const Bytes conclusion = encode_proof({Proof::Step::conclusion, {}, draw_nonce()});
        ASSERT_TRUE(strangers[i].put(encode_frame(FrameType::proof, conclusion)));
        ASSERT_TRUE(strangers[i].put(hello));
    }
    accept_nobody_until(listener, strangers, POLLRDHUP);
    EXPECT_EQ(device.queue_pairs, 0);
    EXPECT_EQ(device.regions, regions);
    EXPECT_EQ(count_of_ring_files(), files);
    // And an honest one gets in, which does cost that.
    int asked = -1;
    std::thread asking([&] { asked = ask(with(keys_.one()), listener.port()); });
    {
        Connection connection = listener.accept(soon());
        EXPECT_EQ(device.queue_pairs, 1);
        EXPECT_GT(count_of_ring_files(), files);
        const Message message = connection.receive_message(soon());
        connection.send_message(2, message.payload(), {}, soon());
        asking.join();
    }
    EXPECT_EQ(asked, 0);
    const std::string logged = log.text();
    EXPECT_EQ(test::count_of(logged, "no proof of a key"), strangers.size() / 2) << logged;
    EXPECT_EQ(test::count_of(logged, "the peer's proof is wrong"), strangers.size() / 2);
}

TEST_F(Authentication, outlives_callers_who_stop_in_the_middle_of_their_proofs) {
    test::CapturedLog log;
    Serving serving(with(keys_.one(), 300ms));
    std::vector<RawSocket> strangers;
    Prover prover(test::wrong_key(), Prover::Role::caller);
    const Bytes challenge = encode_frame(FrameType::proof, prover.begin());
    for (std::size_t i = 0; i < 100; ++i) {
        const RawSocket& one = strangers.emplace_back(RawSocket::connected(serving.port()));
        ASSERT_TRUE(one.put(std::span(challenge).first(i % (challenge.size() + 1))));
    }
    EXPECT_EQ(ask(with(keys_.one()), serving.port()), 0);
    EXPECT_NE(log.text().find("in time"), std::string::npos);
}

// A byte at a time prolongs nothing.
TEST_F(Authentication, has_one_deadline_however_slowly_the_proof_comes) {
    test::CapturedLog log;
    Serving serving(with(keys_.one(), 300ms));
    Prover prover(test::wrong_key(), Prover::Role::caller);
    const Bytes challenge = encode_frame(FrameType::proof, prover.begin());
    const RawSocket slow = RawSocket::connected(serving.port());
    std::size_t sent = 0;
    for (pollfd entry{slow.fd(), POLLIN, 0}; poll(&entry, 1, 50) == 0 && sent < challenge.size();
         ++sent)
        if (!slow.put(std::span(challenge).subspan(sent, 1))) break;
    EXPECT_LT(sent, challenge.size()) << "it was heard to the end";
    EXPECT_EQ(ask(with(keys_.one()), serving.port()), 0);
    EXPECT_NE(log.text().find("in the middle of connecting"), std::string::npos);
}

}  // namespace
}  // namespace verbatim
