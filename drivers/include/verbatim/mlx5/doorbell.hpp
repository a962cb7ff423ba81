// Rings a send queue's doorbell: the one place where fences stand and registers are written, for
// real and for software devices alike. Steps and their order: PRM, "Posting a Work Request to a
// Work Queue" and "BlueFlame". Threads: a Doorbell belongs to the thread that posts to its queue;
// its register must not be shared with another queue pair (real devices: a register of its own,
// e.g. through a thread domain).
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>

#if !defined(__x86_64__)
#error "the fences below are written and argued for x86-64 only: add those of your machine"
#endif

namespace verbatim::mlx5 {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// Loads 16 bytes as two halves. A half that was stored as 8 bytes a moment ago is forwarded from
// the store buffer; one 16-byte load would wait until both halves have reached the cache (some 15
// cycles).
inline __m128i load_halves(const void* from) noexcept {
    // Volatile, because compilers like to merge the two loads.
    using Word [[gnu::may_alias]] = long long;
    const auto* words = static_cast<const volatile Word*>(from);
    return _mm_set_epi64x(words[1], words[0]);
}

// One 64-byte building block held in registers.
struct Block {
    __m128i quarter[4];

    static Block load(const void* from) noexcept {
        const auto* bytes = static_cast<const std::byte*>(from);
        return {{load_halves(bytes), load_halves(bytes + 16), load_halves(bytes + 32),
                 load_halves(bytes + 48)}};
    }
    void store(std::byte* to) const noexcept {
        auto* quarters = reinterpret_cast<__m128i*>(to);
        for (int i = 0; i < 4; ++i) _mm_store_si128(quarters + i, quarter[i]);
    }
};

// Ascending, as every driver does it: should the write-combining buffer be evicted half-way, the
// device has seen the doorbell (first 8 bytes) first and fetches the WQE from memory.
inline void write_register_block(volatile std::byte* to, const Block& block) noexcept {
    if constexpr (kThreadSanitizer) {
        // An engine thread may look at a register while its next half is written; say that in a way
        // ThreadSanitizer understands. The plain stores below are as good on x86.
        alignas(16) std::uint64_t words[8];
        block.store(reinterpret_cast<std::byte*>(words));
        auto* registers = reinterpret_cast<volatile std::uint64_t*>(to);
        for (int i = 0; i < 8; ++i) __atomic_store_n(registers + i, words[i], __ATOMIC_RELAXED);
    } else {
        // Volatile, because compilers may sort plain stores as they like.
        auto* quarters = reinterpret_cast<volatile __m128i*>(to);
        for (int i = 0; i < 4; ++i) quarters[i] = block.quarter[i];
    }
}

// What goes into the register. `bytes()` says how much room it needs there.

// The first word of the last WQE posted: the device fetches everything from memory.
struct DoorbellWord {
    std::uint64_t word;
    std::uint64_t first_word() const noexcept { return word; }
    static constexpr std::uint32_t bytes() noexcept { return 0; }
    void write_blueflame(volatile std::byte*) const noexcept {}
};
// A WQE of one block, still in registers: the device need not fetch it.
struct DoorbellBlock {
    const Block& block;
    std::uint64_t first_word() const noexcept {
        return static_cast<std::uint64_t>(_mm_cvtsi128_si64(block.quarter[0]));
    }
    static constexpr std::uint32_t bytes() noexcept { return kBlockBytes; }
    void write_blueflame(volatile std::byte* to) const noexcept { write_register_block(to, block); }
};
// A WQE of one or more blocks that lies in the ring and may wrap there.
struct DoorbellRing {
    std::uint64_t word;
    const std::byte* begin;  // of the ring
    std::uint32_t mask;      // blocks in the ring - 1
    std::uint32_t index;     // counter of the WQE's first block
    std::uint32_t blocks;

    std::uint64_t first_word() const noexcept { return word; }
    std::uint32_t bytes() const noexcept { return blocks * kBlockBytes; }
    void write_blueflame(volatile std::byte* to) const noexcept {
        for (std::uint32_t i = 0; i < blocks; ++i) {
            const std::byte* from = begin + std::size_t{(index + i) & mask} * kBlockBytes;
            write_register_block(to + std::size_t{i} * kBlockBytes, Block::load(from));
        }
    }
};

// A send queue's doorbell: record in memory, register in the device.
struct Doorbell {
    volatile std::uint32_t* record = nullptr;  // owner: this side; the device only reads it
    std::uintptr_t half = 0;                   // address of the register half to write next
    std::uintptr_t toggle = 0;                 // half XOR the other half; 0 where there is only one
    std::uint32_t blueflame_bytes = 0;
    // What the record holds, kept here because the record's cache line travels to the device and
    // back. It is also the index of the next WQE in the byte order in which its control segment
    // wants it.
    std::uint32_t record_raw = 0;
    DoorbellHook hook;

    static Doorbell of(const QueuePairView& view) noexcept {
        const auto first = reinterpret_cast<std::uintptr_t>(view.doorbell_register);
        return {.record = view.doorbell_record + kRecordSend,
                .half = first,
                .toggle = first ^ (first + view.blueflame_bytes),
                .blueflame_bytes = view.blueflame_bytes,
                .hook = view.doorbell_hook};
    }
};

// The store fence x86 needs around write-combining memory. Ordinary stores are seen in program
// order, but stores to write-combining memory pass earlier ones and linger in their buffer; only
// sfence stops both.
inline void store_fence() noexcept { asm volatile("sfence" ::: "memory"); }

// Runs a software device in this thread. Out of line: posts to devices without a hook then need not
// keep registers free for a call.
void call_hook(const Doorbell& bell, const volatile void* half) noexcept;

// Tells the device that the ring is filled up to (not including) block `counter`. The WQEs are in
// the ring.
template <typename Source>
[[gnu::always_inline]] inline void ring_doorbell(Doorbell& bell, std::uint32_t counter,
                                                 const Source& source) noexcept {
    // 1. The WQEs are visible before the record: a release store. Ring and record are ordinary
    // memory, where x86 keeps the order of stores, so this costs no instruction; it stops the
    // compiler.

    // 2. The record. It is what counts: a device that missed a register write (its queue was
    // waiting, or two writes were merged) continues from here.
    bell.record_raw = be32(counter & 0xffff).raw();
    __atomic_store_n(bell.record, bell.record_raw, __ATOMIC_RELEASE);

    // 3. The record is visible before the register, which is write-combining: without the fence the
    // device could be told of a WQE whose record, and by 1 whose bytes, it does not see yet.
    store_fence();

    // 4. The register: the whole WQE where it fits (BlueFlame), else its first 8 bytes.
    auto* half = reinterpret_cast<volatile std::byte*>(bell.half);
    if (source.bytes() != 0 && source.bytes() <= bell.blueflame_bytes) {
        source.write_blueflame(half);
    } else {
        __atomic_store_n(reinterpret_cast<volatile std::uint64_t*>(half), source.first_word(),
                         __ATOMIC_RELAXED);
    }

    // 5. Out of the write-combining buffer: now, because the device is waiting, and before the next
    // doorbell's bytes can merge with these.
    store_fence();

    // 6. The next doorbell goes to the other half: the device may still be reading this one.
    bell.half ^= bell.toggle;

    // 7. A software device may run here, in the posting thread.
    if (bell.hook.call != nullptr) call_hook(bell, half);
}

}  // namespace verbatim::mlx5
