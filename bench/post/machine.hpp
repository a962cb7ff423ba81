// Which machine this build of the benchmarks is for: the same sources are compiled for baseline
// x86-64, x86-64-v3 and x86-64-v4 (AVX-512), and their cases told apart by a suffix.
#pragma once

#include <string>

#include "subjects.hpp"

namespace verbatim::bench {

#if defined(__AVX512BW__)
inline constexpr const char* kSuffix = "_avx512";
inline constexpr bool kValgrindRuns = false;
inline bool runs_here() {
    return __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#elif defined(__AVX2__)
inline constexpr const char* kSuffix = "_v3";
inline constexpr bool kValgrindRuns = true;
inline bool runs_here() {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
}
#else
inline constexpr const char* kSuffix = "";
inline constexpr bool kValgrindRuns = true;
inline bool runs_here() { return true; }
#endif

inline std::string case_name(const PostCase& of) { return std::string(of.name) + kSuffix; }

}  // namespace verbatim::bench
