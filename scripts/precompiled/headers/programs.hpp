// Headers of the examples and of the graph benchmark, which compile each source alone: compiled
// once for all of them, as tests.hpp is. Each still includes what it uses.
#include <sys/mman.h>
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <verbatim/objects.hpp>
