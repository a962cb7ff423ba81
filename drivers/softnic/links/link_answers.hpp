// The answers to peers' questions over their links: from the key table, the memory files, and the
// device. Threads: the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../host/bell.hpp"
#include "../host/file_table.hpp"
#include "../keys/key_table.hpp"
#include "control_service.hpp"
#include "link_session.hpp"

namespace verbatim::softnic {

class LinkAnswers {
  public:
    // `bell`: of the device's engine thread, if it has one.
    LinkAnswers(ControlService& service, KeyTable& keys, FileTable& files, const Bell& bell)
        : service_(service), keys_(keys), files_(files), bell_(bell) {}
    LinkAnswers(const LinkAnswers&) = delete;
    LinkAnswers& operator=(const LinkAnswers&) = delete;

    // A hello may name this device.
    void add_name(const Nonce& nonce);
    // Ends the session of a peer that breaks the protocol, or does not read its answers.
    void answer(LinkSession& session, const LinkMessage& request);
    static void refuse(LinkSession& session, const LinkMessage& request, Errc code,
                       const std::string& why);

  private:
    bool has_name(const Nonce& nonce) const;
    void answer_hello(LinkSession& session, const LinkMessage& request);
    void answer_description(LinkSession& session, const LinkMessage& request);
    void answer_proof(LinkSession& session, const LinkMessage& request);
    void answer_keys(LinkSession& session, const LinkMessage& request);
    void answer_files(LinkSession& session, const LinkMessage& request,
                      const std::vector<std::uint64_t>& numbers);
    void answer_channel(LinkSession& session, const LinkMessage& request);
    static void reply(LinkSession& session, const LinkMessage& request, LinkMessage& message,
                      std::span<const int> files = {});

    ControlService& service_;
    KeyTable& keys_;
    FileTable& files_;
    const Bell bell_;
    // Stays where the welcome says.
    const std::unique_ptr<const Nonce> secret_ = std::make_unique<const Nonce>(random_nonce());
    std::vector<Nonce> names_;
    std::uint64_t last_session_ = 0;
};

}  // namespace verbatim::softnic
