// A started coroutine runs at once, and nobody waits for it.
#pragma once

#include <coroutine>
#include <exception>

namespace verbatim::test {

struct Started {
    struct promise_type {
        Started get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

}  // namespace verbatim::test
