// Queue views connect devices with the data path. They are plain structs that a real device
// (through mlx5dv_init_obj) and the software NIC fill alike. From here on there is one data path;
// it tells devices apart only by a null or non-null hook. Nothing here is owned: the device that
// made the queues keeps the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::mlx5 {

// Called after a doorbell register was written, in the posting thread, with the address of the
// register half that was written. Null on real devices and on a parked software NIC. Bounded, never
// re-entered.
struct DoorbellHook {
    void (*call)(void* context, const volatile void* register_half) noexcept = nullptr;
    void* context = nullptr;
};

// Called when a poll finds a completion queue empty, in the polling thread. Null on real devices.
// Bounded.
struct ProgressHook {
    void (*call)(void* context) noexcept = nullptr;
    void* context = nullptr;
};

// Called after the doorbell record of receives was written, in the posting thread, for devices that
// take receives by a call. Null on real devices and on the software NIC, which look at the record.
// Bounded.
struct ReceiveHook {
    void (*call)(void* context) noexcept = nullptr;
    void* context = nullptr;
};

// The transport between queue pairs. Unreliable connections take no reads and no atomics. Datagrams
// are sends with an address each.
enum class Transport : std::uint8_t {
    reliable_connection,
    unreliable_connection,
    unreliable_datagram
};

// Called after a completion queue was armed, in the arming thread. Null on real devices. Bounded.
struct ArmHook {
    void (*call)(void* context) noexcept = nullptr;
    void* context = nullptr;
};

// A queue pair as the data path sees it.
struct QueuePairView {
    Transport transport = Transport::reliable_connection;
    std::byte* send_buffer = nullptr;     // 64-byte building blocks, 64-byte aligned
    std::uint32_t send_blocks = 0;        // power of two
    std::byte* receive_buffer = nullptr;  // entries of 1 << receive_stride_log2 bytes
    std::uint32_t receive_entries = 0;    // power of two, 0 with a shared receive queue
    std::uint32_t receive_stride_log2 = 4;
    volatile std::uint32_t* doorbell_record = nullptr;  // big endian: [0] receive, [1] send counter
    volatile std::byte* doorbell_register =
        nullptr;  // two BlueFlame halves, or one 8-byte register
    std::uint32_t blueflame_bytes =
        0;                     // size of one half (256 on ConnectX), 0: only 8-byte doorbells
    std::uint32_t number = 0;  // 24-bit queue pair number
    std::uint32_t max_inline_bytes = 0;
    std::uint32_t max_send_elements = 0;
    std::uint32_t max_receive_elements = 1;
    bool atomics = true;          // of 8 bytes
    bool masked_atomics = false;  // and so atomics of 4 bytes
    // Sizes (4 | 8) of atomics whose result the device leaves in memory in big endian. In a
    // completion entry every result is big endian.
    std::uint32_t big_endian_results = 4;
    DoorbellHook doorbell_hook;
    ReceiveHook receive_hook;
};

// A shared receive queue as the data path sees it: entries of 1 << stride_log2 bytes, each a link
// and data segments. The device starts at entry 0 and follows the links.
struct SharedReceiveQueueView {
    std::byte* buffer = nullptr;
    std::uint32_t entries = 0;  // power of two; one of them is always free
    std::uint32_t stride_log2 = 5;
    volatile std::uint32_t* doorbell_record = nullptr;  // big endian: [0] counter of posts
    std::uint32_t number = 0;
    std::uint32_t max_elements = 1;
    ReceiveHook receive_hook;
};

// A completion queue as the data path sees it.
struct CompletionQueueView {
    std::byte* buffer = nullptr;
    std::uint32_t entries = 0;                          // power of two
    std::uint32_t entry_bytes = 64;                     // 64 or 128
    volatile std::uint32_t* doorbell_record = nullptr;  // big endian: [0] consumer index, [1] arm
    volatile std::byte* doorbell_register = nullptr;    // its page; null: cannot be armed
    std::uint32_t number = 0;
    ProgressHook progress_hook;
    ArmHook arm_hook;
};

}  // namespace verbatim::mlx5
