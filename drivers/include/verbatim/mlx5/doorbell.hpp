// A doorbell tells a device, real or in software, of posted entries. Only this file of the data
// path has fences and writes registers. Steps and their order: PRM, "Posting a Work Request to a
// Work Queue" and "BlueFlame". Threads: a Doorbell belongs to the thread that posts to its queue.
// Its register must be no other queue pair's (on real devices through a thread domain). Single
// words (no BlueFlame) do not mix, so their register may be shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/wqe_units.hpp>

#if !defined(__x86_64__)
#error "the fences below are written and argued for x86-64 only: add those of your machine"
#endif

namespace verbatim::mlx5 {

// The size of each half of a BlueFlame register, on every device so far. Queues with another size
// work, with a test of it at every doorbell.
inline constexpr std::uint32_t kBlueFlameBytes = 256;

// The bytes for the register. `bytes()` is the room that they need there; kKind says whether they
// fit.
enum class DoorbellKind : std::uint8_t {
    any_size,   // tests whether it fits
    blueflame,  // fits: the register has halves of kBlueFlameBytes
    word_only,  // of a queue that never writes more than the first word
};

// The first word of the last WQE posted: the device fetches everything from memory.
struct DoorbellWord {
    static constexpr DoorbellKind kKind = DoorbellKind::any_size;
    std::uint64_t word;
    void write_word(volatile std::byte* to) const noexcept { write_register_word(to, word); }
    static constexpr std::uint32_t bytes() noexcept { return 0; }
    void write_blueflame(volatile std::byte*) const noexcept {}
};
struct DoorbellWordOnly {
    static constexpr DoorbellKind kKind = DoorbellKind::word_only;
    __m128i control;
    void write_word(volatile std::byte* to) const noexcept { write_register_word(to, control); }
    static constexpr std::uint32_t bytes() noexcept { return 0; }
    void write_blueflame(volatile std::byte*) const noexcept {}
};
// A WQE that is still in registers: the device need not fetch it, unless it is too long.
template <std::size_t kUnits>
struct DoorbellUnits {
    static constexpr DoorbellKind kKind = Units<kUnits>::kBlocks * kBlockBytes <= kBlueFlameBytes
                                              ? DoorbellKind::blueflame
                                              : DoorbellKind::any_size;
    Units<kUnits> wqe;
    void write_word(volatile std::byte* to) const noexcept {
        write_register_word(to, wqe.first_word());
    }
    static constexpr std::uint32_t bytes() noexcept { return 0; }  // where it does not fit
    [[gnu::always_inline]] void write_blueflame(volatile std::byte* to) const noexcept {
        wqe.write_register(to);
    }
};
// A WQE of one or more blocks that lies in the ring and may wrap there.
struct DoorbellRing {
    static constexpr DoorbellKind kKind = DoorbellKind::any_size;
    std::uint64_t word;
    const std::byte* begin;  // of the ring
    std::uint32_t mask;      // blocks in the ring - 1
    std::uint32_t index;     // counter of the WQE's first block
    std::uint32_t blocks;

    void write_word(volatile std::byte* to) const noexcept { write_register_word(to, word); }
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

// Tells the device that the ring is filled up to (not including) the block whose counter `record`
// is, as the doorbell record has it (PostWindow::record()). The WQEs are in the ring.
template <typename Source>
[[gnu::always_inline]] inline void ring_doorbell(Doorbell& bell, std::uint32_t record,
                                                 const Source& source) noexcept {
    // 1. The WQEs are visible before the record: a release store. Ring and record are ordinary
    // memory, where x86 keeps the order of stores, so this costs no instruction; it stops the
    // compiler.

    // 2. The record. It is what counts: a device that missed a register write (its queue was
    // waiting, or two writes were merged) continues from here.
    __atomic_store_n(bell.record, record, __ATOMIC_RELEASE);

    // 3. The record is visible before the register, which is write-combining. Without the fence the
    //    device could learn of a WQE before its record is visible, and by 1 before its bytes are.
    store_fence();

    // 4. The register: the whole WQE where it fits (BlueFlame), else its first 8 bytes.
    auto* half = reinterpret_cast<volatile std::byte*>(bell.half);
    if (Source::kKind == DoorbellKind::blueflame ||
        (source.bytes() != 0 && source.bytes() <= bell.blueflame_bytes)) {
        source.write_blueflame(half);
    } else {
        source.write_word(half);
    }

    // 5. Out of the write-combining buffer: now, because the device is waiting, and before the next
    // doorbell's bytes can merge with these.
    store_fence();

    // 6. The next doorbell goes to the other half: the device may still be reading this one. Where
    // a queue's doorbells are single words, none can be read half-written (Linux's mlx5e always
    // rings in one place).
    if constexpr (Source::kKind == DoorbellKind::blueflame)
        bell.half ^= kBlueFlameBytes;
    else if constexpr (Source::kKind == DoorbellKind::any_size)
        bell.half ^= bell.toggle;

    // 7. A software device may run here, in the posting thread.
    if (bell.hook.call != nullptr) call_hook(bell, half);
}

}  // namespace verbatim::mlx5
