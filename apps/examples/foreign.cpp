// Vectors, lent and written without a copy: `example-foreign lend` and, elsewhere, `... fill`.
#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

#include <verbatim/core/context.hpp>
#include <verbatim/core/one_sided.hpp>

using namespace verbatim;

void lend(Context& context, RegistrationCache& cache) {
    Connection connection = context.listen("127.0.0.1:7476").accept();
    std::vector<std::uint64_t> words(1000);
    Grant grant(connection, cache.acquire(std::span(words)),
                std::as_writable_bytes(std::span(words)), Access::remote_write);
    connection.send_message(1, std::as_bytes(grant.extents().first(1)), {}, Deadline::never());
    connection.receive_message(Deadline::never());
    grant.wait_end(Deadline::never());  // and with it the lease
    std::printf("%llu\n", static_cast<unsigned long long>(words[0] + words[999]));
}

void fill(Context& context, RegistrationCache& cache) {
    Connection connection = context.connect("127.0.0.1:7476");
    const Message message = connection.receive_message(Deadline::never());
    const auto remote = RemoteSpan<std::uint64_t>::parse(message.payload()).value();
    std::vector<std::uint64_t> words(remote.size());
    std::iota(words.begin(), words.end(), 7);
    const Registered lease = cache.acquire(std::span(words));
    OneSided(connection).write(lease.local(std::span(words)), remote, Deadline::never());
    connection.send_message(2, {}, {}, Deadline::never());
}

int main(int argc, char** argv) {
    Context context;
    RegistrationCache cache(context);
    std::string_view(argc > 1 ? argv[1] : "") == "lend" ? lend(context, cache)
                                                        : fill(context, cache);
}
