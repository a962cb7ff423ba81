// Error codes: each has a name, a sentence and a remedy, and belongs to one scope.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include <verbatim/driver/error.hpp>

namespace verbatim {
namespace {

constexpr auto kLast = static_cast<unsigned>(Errc::device_error);

TEST(ErrorCodes, have_names_of_their_own_a_sentence_and_a_remedy) {
    std::set<std::string_view> names;
    for (unsigned code = 0; code <= kLast; ++code) {
        const auto errc = static_cast<Errc>(code);
        EXPECT_TRUE(names.insert(name(errc)).second) << name(errc);
        EXPECT_FALSE(describe(errc).empty()) << name(errc);
        EXPECT_EQ(remedy_for(errc).empty(), errc == Errc::ok) << name(errc);
    }
    EXPECT_EQ(name(static_cast<Errc>(kLast + 1)), "unknown");
}

TEST(ErrorCodes, name_a_connection_as_what_must_be_rebuilt_also_in_the_remedy) {
    for (unsigned code = 0; code <= kLast; ++code) {
        const auto errc = static_cast<Errc>(code);
        if (errc >= Errc::local_length && errc <= Errc::aborted) {
            EXPECT_EQ(scope_of(errc), Scope::connection) << name(errc);
            EXPECT_NE(remedy_for(errc).find("onnect again"), std::string_view::npos) << name(errc);
        }
    }
}

TEST(Errors, say_object_cause_and_the_remedy_of_their_code_where_none_is_named) {
    const Error plain(Errc::peer_lost, "connection a:1", "the peer closed it");
    EXPECT_EQ(plain.remedy(), remedy_for(Errc::peer_lost));
    EXPECT_EQ(std::string(plain.what()),
              "connection a:1: the peer closed it; " + std::string(remedy_for(Errc::peer_lost)));
    const Error named(Errc::peer_lost, "connection a:1", "the peer closed it", "wait for it");
    EXPECT_STREQ(named.what(), "connection a:1: the peer closed it; wait for it");
}

}  // namespace
}  // namespace verbatim
