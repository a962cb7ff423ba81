// Forks of sanitized test programs wait for the address sanitizer's own locks. Clang's runtime
// takes them itself from version 18 on (LLVM, asan_posix.cpp, InstallAtForkHandler): with an older
// one, a child hangs in its first allocation if a thread of the parent was in one as it forked.
#include <pthread.h>

// Functions of the runtime, which stands in the program, but in those that are not sanitized.
namespace __lsan {
[[gnu::weak]] void LockThreadRegistry();
[[gnu::weak]] void UnlockThreadRegistry();
[[gnu::weak]] void LockAllocator();
[[gnu::weak]] void UnlockAllocator();
}  // namespace __lsan
namespace __sanitizer {
[[gnu::weak]] void StackDepotLockAll();
[[gnu::weak]] void StackDepotUnlockAll();
}  // namespace __sanitizer

namespace {

void lock() {
    __lsan::LockThreadRegistry();
    __lsan::LockAllocator();
    __sanitizer::StackDepotLockAll();
}

void unlock() {
    __sanitizer::StackDepotUnlockAll();
    __lsan::UnlockAllocator();
    __lsan::UnlockThreadRegistry();
}

// Registered before any other handler, so that it locks last and unlocks first: the others
// allocate.
[[gnu::constructor(101)]] void handle_forks() {
    if (&__lsan::LockAllocator != nullptr) pthread_atfork(lock, unlock, unlock);
}

}  // namespace
