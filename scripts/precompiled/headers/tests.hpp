// Headers that most tests include: compiled once for all of them (`-Dprecompiled=true`, which
// scripts/build passes). Each test still includes what it uses: builds with ccache compile without
// this file. None of our own: those would gain little, and hide names of tests.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
