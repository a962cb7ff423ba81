// Arenas by name: their memory is lent, and is local memory of one-sided operations.
#include <algorithm>
#include <cstring>
#include <string>

#include "core_lent.hpp"

namespace verbatim::test {
namespace {

Config with_arenas(std::initializer_list<const char*> names) {
    Config config = small_config();
    for (const char* name : names) {
        config.named_arenas.push_back(config.arena);
        config.named_arenas.back().name = name;
    }
    return config;
}

TEST(NamedArenas, are_lent_from_and_read_into) {
    ConnectedPair pair(with_arenas({"cache", "log"}), with_arenas({"table"}));
    Arena &cache = pair.sender_context.arena("cache"),
          &table = pair.receiver_context.arena("table");
    const Local<std::uint64_t> there(table, 512), here(cache, 512);
    for (std::size_t i = 0; i < there->size(); ++i) there[i] = 3 * i;
    const Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    const RemoteSpan<std::uint64_t> remote(grant.extents()[0]);
    pair.receiver->send_message(1, remote.bytes(), {}, soon());  // its key works behind that
    (void)pair.sender->receive_message(soon());
    OneSided one_sided(*pair.sender);
    PreparedRead<std::uint64_t> read(one_sided, remote, *here);
    Operation add;
    ASSERT_EQ(read.execute(), Errc::ok);
    ASSERT_EQ(one_sided.try_fetch_add(remote[1], 100, &here[0], add), Errc::ok);
    const Deadline deadline = soon();
    while (one_sided.result(add) == Errc::would_block && !deadline.passed())
        (void)pair.receiver->progress(), (void)pair.sender->progress();
    EXPECT_EQ(one_sided.result(add), Errc::ok);
    EXPECT_EQ(here[511], 3u * 511);
    EXPECT_EQ(here[0], 3u) << "the word before the addition";
    EXPECT_EQ(there[1], 103u);
    EXPECT_EQ(cache.usage().allocated_bytes, 4096u);
    EXPECT_EQ(pair.sender_context.arena("log").usage().allocated_bytes, 0u);
}

TEST(NamedArenas, that_are_not_there_are_an_error_with_the_names_of_those_that_are) {
    Context context(with_arenas({"cache", "log"}));
    try {
        (void)context.arena("logs");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("cache, log"), std::string::npos) << error.what();
    }
    EXPECT_EQ(error_code_of([&] { (void)Context(small_config()).arena("any"); }),
              Errc::invalid_argument);
}

TEST(NamedArenas, of_one_name_are_refused) {
    EXPECT_EQ(error_code_of([] {
                  Context context(with_arenas({"cache", "cache"}));
              }),
              Errc::config_error);
}

}  // namespace
}  // namespace verbatim::test
