// The subjects of group `post`, by case and name. Each posts operations whose remote address and
// payload (or local address) change every time; every 64th is signaled and retires those before it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::bench {

class PostSubject {
  public:
    virtual ~PostSubject() = default;
    // Before every run, not measured.
    virtual void prepare() {}
    // Posts `count` operations, in batches of kBatch; or takes as many completions.
    virtual void run(std::uint64_t count) = 0;
};

inline constexpr std::uint64_t kBatch = 64;

// What a case posts. Exactly one of inline_bytes and elements is not 0. From operation to operation
// the remote address changes, and the payload or, where `moves`, the address of each element.
struct PostCase {
    std::string_view name;
    mlx5::Opcode opcode;
    std::uint32_t inline_bytes;
    std::uint32_t elements;
    bool moves = true;
};
inline constexpr PostCase kPostCases[] = {
    {"write_inline_8", mlx5::Opcode::write, 8, 0},
    {"write_inline_64", mlx5::Opcode::write, 64, 0},
    {"write_gather_1", mlx5::Opcode::write, 0, 1},
    {"read_gather_10", mlx5::Opcode::read, 0, 10, false},
    {"read_gather_10_moved", mlx5::Opcode::read, 0, 10},
    {"send_8", mlx5::Opcode::send, 8, 0},
};

// Taking completions, at most this many in one run.
inline constexpr PostCase kPollCases[] = {
    {"poll_16", mlx5::Opcode::write, 8, 0},
    {"poll_1", mlx5::Opcode::write, 8, 0},
};
inline bool is_poll(const PostCase& of) { return &of == &kPollCases[0] || &of == &kPollCases[1]; }
inline constexpr std::uint64_t kMaxPolled = 6400;

struct NamedSubject {
    const PostCase* of;
    std::string_view name;
    std::unique_ptr<PostSubject> (*make)(const PostCase&);
};
std::vector<NamedSubject> subjects();

// Of other files.
void add_poll_subjects(std::vector<NamedSubject>& all);
void add_engine_subjects(std::vector<NamedSubject>& all);
std::unique_ptr<PostSubject> make_libmlx5_post_send(const PostCase& of);
std::unique_ptr<PostSubject> make_libmlx5_builder(const PostCase& of);

}  // namespace verbatim::bench
