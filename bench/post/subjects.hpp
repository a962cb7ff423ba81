// The subjects of group `post`, by name. Each posts 8-byte inline RDMA writes whose address and
// payload change every time; every 64th is signaled and retires those before it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace verbatim::bench {

inline constexpr std::string_view kWriteInline8 = "write_inline_8";

class PostSubject {
  public:
    virtual ~PostSubject() = default;
    // Posts `count` times, in batches of kBatch.
    virtual void run(std::uint64_t count) = 0;
};

inline constexpr std::uint64_t kBatch = 64;

struct NamedSubject {
    std::string_view name;
    std::unique_ptr<PostSubject> (*make)();
};
std::span<const NamedSubject> subjects();

}  // namespace verbatim::bench
