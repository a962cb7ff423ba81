// One answer for each question.
#include "link_answers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "description.hpp"

namespace verbatim::softnic {

void LinkAnswers::add_name(const Nonce& nonce) { names_.push_back(nonce); }

bool LinkAnswers::has_name(const Nonce& nonce) const {
    return std::find(names_.begin(), names_.end(), nonce) != names_.end();
}

void LinkAnswers::answer(LinkSession& session, const LinkMessage& request) try {
    if (request.op == LinkOp::hello) return answer_hello(session, request);
    if (request.op == LinkOp::describe) return answer_description(session, request);
    if (!session.welcomed) return session.socket.close();
    switch (request.op) {
        case LinkOp::list_files:
            return answer_files(session, request,
                                files_.numbers_after(request.file, kFilesPerMessage));
        case LinkOp::get_file:
            return answer_files(session, request, {request.file});
        case LinkOp::get_keys:
            return answer_keys(session, request);
        case LinkOp::prove:
            return answer_proof(session, request);
        case LinkOp::open_channel:
            return answer_channel(session, request);
        case LinkOp::wake:
            return service_.wake(request.to_queue_pair, ControlService::WakeFor::events);
        case LinkOp::run:
            return service_.wake(request.to_queue_pair, ControlService::WakeFor::turns);
        default:
            return refuse(session, request, Errc::protocol_error, "unknown request");
    }
} catch (const Error& error) {
    refuse(session, request, error.code(), error.cause());
}

void LinkAnswers::answer_hello(LinkSession& session, const LinkMessage& request) {
    if (!has_name(request.to)) {
        refuse(session, request, Errc::protocol_error, "the hello names another device");
        return session.socket.close();
    }
    session.welcomed = true;
    session.peer.session = {request.from, ++last_session_, request.from};
    LinkMessage welcome;
    welcome.op = LinkOp::welcome;
    welcome.from = request.to;
    welcome.to = request.from;
    if (keys_.accesses().barriers()) welcome.features |= kRaisesBarriers;
    welcome.secret_at = reinterpret_cast<std::uintptr_t>(secret_.get());
    const std::array<int, 2> files{keys_.view().file(), bell_ ? bell_.file() : -1};
    reply(session, request, welcome, std::span(files).first(bell_ ? 2 : 1));
}

// To this user only, though others may connect.
void LinkAnswers::answer_description(LinkSession& session, const LinkMessage& request) {
    if (session.user != geteuid())
        return refuse(session, request, Errc::permission_denied,
                      fmt::format("this device belongs to uid {}", geteuid()));
    LinkMessage answer;
    answer.op = LinkOp::description;
    const Descriptor text = file_of(service_.describe());
    const std::array<int, 1> file{text.get()};
    reply(session, request, answer, file);
}

// It has read the secret in this process' memory.
void LinkAnswers::answer_proof(LinkSession& session, const LinkMessage& request) {
    if (request.secret != *secret_)
        return refuse(session, request, Errc::permission_denied, "that is not the secret");
    session.may_attach = true;
    LinkMessage answer;
    answer.op = LinkOp::proven;
    reply(session, request, answer);
}

void LinkAnswers::answer_keys(LinkSession& session, const LinkMessage& request) {
    if (request.chunk >= keys_.view().chunks())
        return refuse(session, request, Errc::invalid_argument, "there are not so many keys");
    LinkMessage answer;
    answer.op = LinkOp::keys;
    const std::array<int, 1> file{keys_.view().file(request.chunk)};
    reply(session, request, answer, file);
}

void LinkAnswers::answer_files(LinkSession& session, const LinkMessage& request,
                               const std::vector<std::uint64_t>& numbers) {
    LinkMessage answer;
    answer.op = LinkOp::files;
    std::vector<Descriptor> kept;
    std::vector<int> files;
    for (const std::uint64_t number : numbers) {
        if ((number & kPageFile) != 0 && !session.may_attach) continue;
        Descriptor file = files_.duplicate(number);
        if (!file) continue;  // released meanwhile
        answer.files[answer.count++] = number;
        files.push_back(file.get());
        kept.push_back(std::move(file));
    }
    reply(session, request, answer, files);
}

void LinkAnswers::answer_channel(LinkSession& session, const LinkMessage& request) {
    LinkMessage answer;
    answer.op = LinkOp::channel;
    const ChannelPlace place =
        service_.open_channel(session.peer, request.from_queue_pair, request.to_queue_pair);
    answer.file = place.offset;
    const bool wakes = place.waker != nullptr;
    answer.chunk = place.door;
    const std::array<int, 2> files{place.memory->file(), wakes ? place.waker->file() : -1};
    reply(session, request, answer, std::span(files).first(wakes ? 2 : 1));
}

void LinkAnswers::reply(LinkSession& session, const LinkMessage& request, LinkMessage& message,
                        std::span<const int> files) {
    message.sequence = request.sequence;
    // A peer that asks but does not read is cut off: this thread never waits for one peer.
    if (!send_message(session.socket.get(), message, files)) session.socket.close();
}

void LinkAnswers::refuse(LinkSession& session, const LinkMessage& request, Errc code,
                         const std::string& why) {
    LinkMessage refusal;
    refusal.op = LinkOp::refusal;
    refusal.status = static_cast<std::uint32_t>(code);
    refusal.set_sentence(why);
    reply(session, request, refusal);
}

}  // namespace verbatim::softnic
