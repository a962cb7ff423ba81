"""Faults that a driver of mlx5 queues could have, as exact edits of this one. scripts/mutations shows that a test fails
for each of them. Those of one file stand together: the next build then compiles its dependents once for both."""

from dataclasses import dataclass

# The tests of the driver. A mutation names the one that should notice it, and all the others follow where it does not.
PROGRAMS = [
    *(f"tests/unit/mlx5/mlx5_{name}_test" for name in (
        "send_queue", "admission", "store_order", "encode", "prepared", "fixed", "fixed_list", "completion_queue",
        "receive_queue", "shared_receive_queue", "shared_completion", "wrap", "random")),
    "tests/unit/softnic/softnic_operations_test",
]

Edit = tuple[str, str]  # a text that occurs exactly once in the file, and what stands there instead


@dataclass(frozen=True)
class Mutation:
    name: str
    hardware: str  # what a card does with such a driver
    file: str
    edits: tuple[Edit, ...]
    program: str = "mlx5_send_queue_test"  # is tried first


HEADERS = "drivers/include/verbatim/mlx5"
ADMISSION, ORDER, ENCODE, PREPARED, FIXED, FIXED_LIST, COMPLETIONS, RECEIVES, SHARED, SHARED_COMPLETIONS, WRAP = (
    f"mlx5_{name}_test" for name in (
        "admission", "store_order", "encode", "prepared", "fixed", "fixed_list", "completion_queue", "receive_queue",
        "shared_receive_queue", "shared_completion", "wrap"))
STORE_RECORD = "    __atomic_store_n(bell.record, record, __ATOMIC_RELEASE);\n"

DOORBELL = [
    Mutation(
        "fence_before_register_missing",
        "the register write may overtake record and WQE: the device fetches a WQE that is not there yet",
        f"{HEADERS}/doorbell.hpp",
        (("by 1 before its bytes are.\n    store_fence();\n", "by 1 before its bytes are.\n"),), ORDER),
    Mutation(
        "fence_after_register_missing",
        "the doorbell lingers in the write-combining buffer, and the next one's bytes merge with it",
        f"{HEADERS}/doorbell.hpp",
        (("bytes can merge with these.\n    store_fence();\n", "bytes can merge with these.\n"),), ORDER),
    Mutation(
        "record_after_register",
        "the device may read the old record and go to sleep: the last post is lost until the next doorbell",
        f"{HEADERS}/doorbell.hpp",
        ((STORE_RECORD, ""), ("    // 5. Out of", STORE_RECORD + "    // 5. Out of")), ORDER),
    Mutation(
        "record_never_written",
        "the device takes the record's word for what is posted: nothing is executed after a retry or an error",
        f"{HEADERS}/doorbell.hpp", ((STORE_RECORD, ""),)),
    Mutation(
        "record_of_the_receive_queue",
        "receives that were never posted are announced, sends that were are not",
        f"{HEADERS}/doorbell.hpp", (("view.doorbell_record + kRecordSend", "view.doorbell_record + kRecordReceive"),)),
    Mutation(
        "record_not_masked",
        "the counter has 16 bits; the bits above are reserved and must be zero",
        f"{HEADERS}/post_window.hpp", (("be32(next & 0xffff)", "be32(next)"),)),
    Mutation(
        "half_never_toggled",
        "the next BlueFlame write lands in the buffer that the device is still reading",
        f"{HEADERS}/doorbell.hpp", (("        bell.half ^= kBlueFlameBytes;\n", "        bell.half ^= 0;\n"),
         ("        bell.half ^= bell.toggle;\n", "        bell.half ^= 0;\n"))),
    Mutation(
        "wrong_half_first",
        "the toggle leads out of the register after the first doorbell, into another queue pair's",
        f"{HEADERS}/doorbell.hpp", ((".half = first,", ".half = first + view.blueflame_bytes,"),)),
    Mutation(
        "copy_larger_than_the_half",
        "the WQE's tail overwrites the other half, where the previous doorbell may still be read",
        f"{HEADERS}/doorbell.hpp",
        (("(source.bytes() != 0 && source.bytes() <= bell.blueflame_bytes)", "source.bytes() != 0"),)),
    Mutation(
        "copy_of_the_block_before",
        "the device executes the copy in place of the WQE: the previous request, a second time",
        f"{HEADERS}/doorbell.hpp", (("{(index + i) & mask} *", "{(index + i - 1) & mask} *"),)),
    Mutation(
        "last_block_of_the_copy_stale",
        "the device executes the copy in place of the WQE: the end of the payload is of another request",
        f"{HEADERS}/doorbell.hpp", (("{(index + i) & mask} *", "{(index + i - i / 2) & mask} *"),)),
    Mutation(
        "copy_ignores_the_ring_end",
        "a WQE that wraps is executed with bytes from behind the ring",
        f"{HEADERS}/doorbell.hpp", (("{(index + i) & mask} *", "{(index & mask) + i} *"),)),
    Mutation(
        "register_filled_downwards",
        "a write-combining buffer that is evicted half-way shows the device a payload without its control segment",
        f"{HEADERS}/wqe_units.hpp",
        (("for (int i = 0; i < 4; ++i) quarters[i] =", "for (int i = 3; i >= 0; --i) quarters[i] ="),), ORDER),
]

ENCODING = [
    Mutation(
        "ds_one_too_few",
        "the device does not see the last 16 bytes: the payload's end or an element is missing",
        f"{HEADERS}/encode.hpp", (("be32(number << 8 | units));", "be32(number << 8 | (units - 1)));"),), ENCODE),
    Mutation(
        "ds_one_too_many",
        "the device takes leftovers of an earlier WQE for an element: a protection error, or worse, none",
        f"{HEADERS}/encode.hpp", (("be32(number << 8 | units));", "be32(number << 8 | (units + 1)));"),), ENCODE),
    Mutation(
        "signaled_bit_lost",
        "no completion is ever written: the queue fills up and stays full",
        f"{HEADERS}/encode.hpp", (("(request.signaled ? kCompletionAlways : 0) |", ""),), ENCODE),
    Mutation(
        "immediate_in_host_order",
        "the peer gets the immediate with its bytes reversed",
        f"{HEADERS}/encode.hpp", (("be32(flags), be32(immediate)", "be32(flags), be32::from_raw(immediate)"),), ENCODE),
    Mutation(
        "units_run_past_the_ring_end",
        "a WQE that should go on at the ring's start is continued behind the ring, in foreign memory",
        f"{HEADERS}/encode.hpp", (("        if (at_ == end_) at_ = begin_;\n", ""),)),
    Mutation(
        "inline_payload_runs_past_the_ring_end",
        "the payload goes into foreign memory, the device sends what lay at the ring's start",
        f"{HEADERS}/encode.hpp", (("std::min(room, bytes.size())", "bytes.size() + 0 * room"),)),
]

SEND_QUEUE = [
    Mutation(
        "index_off_by_one",
        "the device compares the index with its own and fails the queue pair",
        f"{HEADERS}/send_queue.hpp", (("{number_, index},", "{number_, index + 1},"),)),
    Mutation(
        "stale_index_in_the_register_copy",
        "the device takes the copy for an old doorbell and drops it, or fetches the wrong WQE",
        f"{HEADERS}/send_queue.hpp",
        (("        wqe.set_index(", "        const Units<kUnits> rung = wqe;\n        wqe.set_index("),
         ("DoorbellUnits<kUnits>{wqe}", "DoorbellUnits<kUnits>{rung}")), PREPARED),
    Mutation(
        "full_ring_overwritten",
        "a WQE that the device has not executed is replaced by a later one",
        f"{HEADERS}/post_window.hpp", ((" * kStep <= stop_;", " * kStep <= stop_ + kStep;"),), PREPARED),
    Mutation(
        "composed_wqe_runs_past_the_ring_end",
        "the device executes a WQE whose end is an older request's",
        f"{HEADERS}/post_window.hpp", (("{free, to_carry, to_end}", "{free, to_carry, to_end + 1}"),), FIXED),
    Mutation(
        "carry_of_the_counter_lost",
        "the record goes back by 256: the device takes the queue for one that overran",
        f"{HEADERS}/post_window.hpp", (("= 0xff - (at & 0xff)", "= 0x100 - (at & 0xff)"),), PREPARED),
    Mutation(
        "window_open_behind_a_key_update",
        "the next request reaches memory through a key that is still being changed",
        "drivers/mlx5/queues.cpp", (("if (pending_fence_ == 0 && plain_register_)", "if (plain_register_)"),), ADMISSION),
    Mutation(
        "window_open_before_any_register",
        "64 bytes go into a register that takes 8: into the next queue pair's",
        "drivers/mlx5/queues.cpp", (("if (pending_fence_ == 0 && plain_register_)", "if (pending_fence_ == 0)"),), ADMISSION),
    Mutation(
        "fence_lost_in_the_last_of_a_list",
        "the request behind a key update does not wait for it",
        f"{HEADERS}/send_queue.hpp",
        (("fence_completion_event)] |= std::byte{asked.last_flags};",
          "fence_completion_event)] = std::byte{asked.last_flags};"),), ADMISSION),
    Mutation(
        "flushed_filler_makes_room",
        "a prebuilt request is posted over the one that is not flushed yet",
        f"{HEADERS}/prebuilt_queue.hpp",
        (("if (const Errc error = admit(kSlotBlocks); error", "if (const Errc error = admit(1); error"),), ADMISSION),
    Mutation(
        "filler_with_stale_index",
        "the device compares the index with its own and fails the queue pair in the second lap",
        f"{HEADERS}/prebuilt_queue.hpp", (("i == 0 ? index : bits", "i == 0 ? _mm_setzero_si128() : bits"),), FIXED),
    Mutation(
        "flushed_filler_is_told",
        "the program hears of a request that it never posted",
        "drivers/mlx5/completion_queue.cpp", (("if (id && queues.send->is_filler(", "if (false && queues.send->is_filler("),), FIXED),
    Mutation(
        "listed_request_without_its_flags",
        "the peer gets another immediate than the one prepared",
        f"{HEADERS}/prepared.hpp",
        (("_mm_andnot_si128(signaled, units[kUnit])",
          "_mm_andnot_si128(_mm_or_si128(signaled, _mm_set_epi64x(-1, 0)), units[kUnit])"),), FIXED_LIST),
    Mutation(
        "list_signaled_in_its_last_block",
        "nobody hears of a list of longer requests",
        f"{HEADERS}/send_queue.hpp", (("at - kBlocks * kBlockBytes}", "at - kBlockBytes}"),), FIXED_LIST),
    Mutation(
        "polled_run_goes_beyond_the_youngest",
        "a request is told as finished that was never posted",
        f"{HEADERS}/send_ring.hpp", (("if (behind >= left_)", "if (behind > left_)"),), COMPLETIONS),
    Mutation(
        "polled_run_trusts_counters_within_a_request",
        "a request is told as finished with the id of an older one",
        f"{HEADERS}/send_queue.hpp",
        (("request.id;\n        if (blocks != 1) single_blocks_ = false;\n", "request.id;\n"),), COMPLETIONS),
    Mutation(
        "retired_one_block_too_far",
        "the block behind is posted over while the device still has to execute it",
        f"{HEADERS}/send_ring.hpp", (("limit_ += behind;", "limit_ += behind + 1;"),)),
    Mutation(
        "prepared_image_with_stale_index",
        "the device compares the index with its own and fails the queue pair at the second post",
        "drivers/mlx5/queues.cpp", (("= image[0] | index_bits(index);", "= image[0];"),), FIXED),
    Mutation(
        "prepared_image_runs_past_the_ring_end",
        "the image's end goes into foreign memory, the device executes what lay at the ring's start",
        "drivers/mlx5/queues.cpp", (("{(index + i) & mask_} *", "{(index & mask_) + i} *"),), FIXED),
    Mutation(
        "list_rung_with_its_first_request",
        "the register names a WQE that is not the last: what follows waits for the next doorbell",
        "drivers/mlx5/queues.cpp",
        (("first_word = place(request, shape_of(request));",
          "{\n        const std::uint64_t placed = place(request, shape_of(request));\n"
          "        if (first_word == 0) first_word = placed;\n    }"),)),
    Mutation(
        "reset_keeps_the_record",
        "a queue pair that starts again at 0 executes leftovers up to the old counter",
        "drivers/mlx5/queues.cpp", (("    __atomic_store_n(bell_.record, 0, __ATOMIC_RELEASE);\n", ""),)),
    Mutation(
        "reset_keeps_the_index_of_prepared_posts",
        "the first prepared post after a reset carries an old index: the device fails the queue pair",
        "drivers/mlx5/queues.cpp",
        (("    window_.close(0, whole_ring());\n    limit_ = blocks();\n", "    limit_ = blocks();\n"),), PREPARED),
]

RECEIVING = [
    Mutation(
        "receive_record_before_the_entries",
        "a message that arrives now is scattered to where the entry pointed a lap ago",
        f"{HEADERS}/receive_queue.hpp",
        (("        for (const ReceiveRequest& request : requests) write(next_++, request);\n",
          "        std::uint32_t at = next_;\n        next_ += static_cast<std::uint32_t>(requests.size());\n"
          "        publish();\n        for (const ReceiveRequest& request : requests) write(at++, request);\n"),
         ("        if (next_ >= entries()) lapped_ = true;\n        publish();\n",
          "        if (next_ >= entries()) lapped_ = true;\n")), ORDER),
    Mutation(
        "receive_terminator_missing",
        "a message longer than the list goes on into the element of an earlier one",
        f"{HEADERS}/encode.hpp",
        (("        cursor.put(word(be32(0), be32(kInvalidKey)), 0);\n", ""),),
        RECEIVES),
    Mutation(
        "receive_record_not_masked",
        "the counter has 16 bits; the bits above are reserved and must be zero",
        f"{HEADERS}/receive_queue.hpp", (("be32(next_ & 0xffff).raw()", "be32(next_).raw()"),), RECEIVES),
    Mutation(
        "owner_phase_constant",
        "from the second lap on, entries of the last lap are taken for new ones",
        f"{HEADERS}/completion_queue.hpp",
        (("if (phase != owner_phase(consumer_, entries()) ||", "if (phase != owner_phase(0, entries()) ||"),),
        COMPLETIONS),
    Mutation(
        "invalid_entries_taken",
        "entries that the device never wrote complete requests in the first lap",
        f"{HEADERS}/completion_queue.hpp",
        (("            cqe_opcode(op_own) == CqeOpcode::invalid) {", "            false) {"),), COMPLETIONS),
    Mutation(
        "first_half_of_large_entries",
        "the owner bit is looked for where the device leaves scattered data",
        f"{HEADERS}/completion_queue.hpp",
        (("(entry + (std::size_t{1} << entry_log2_) - sizeof(Cqe))", "(entry)"),), COMPLETIONS),
    Mutation(
        "consumer_index_not_published",
        "the device sees a full completion queue and raises an overrun error",
        f"{HEADERS}/completion_queue.hpp",
        (("        if (consumer_ != first) publish();\n", "        (void)first;\n"),), COMPLETIONS),
    Mutation(
        "consumer_index_not_masked",
        "the index has 24 bits; the bits above are reserved and must be zero",
        f"{HEADERS}/completion_queue.hpp",
        (("be32(consumer_ & kConsumerIndexMask).raw()", "be32(consumer_).raw()"),), COMPLETIONS),
    Mutation(
        "consumer_index_before_the_read",
        "the device may fill the entry again while it is being read",
        f"{HEADERS}/completion_queue.hpp",
        (("            if (decode(*entry, completions[count])) [[likely]]\n                ++count;\n"
          "            ++consumer_;\n",
          "            ++consumer_;\n            publish();\n"
          "            if (decode(*entry, completions[count])) [[likely]]\n                ++count;\n"),), ORDER),
]

RECEIVE_HPP, SHARED_HPP = f"{HEADERS}/receive_queue.hpp", f"{HEADERS}/shared_receive_queue.hpp"
SHARED_CPP, COMPLETION_CPP = "drivers/mlx5/shared_receive_queue.cpp", "drivers/mlx5/completion_queue.cpp"

RECEIVES_IN_PLACE = [
    Mutation(
        "receive_ring_not_wrapped",
        "entries of the second lap go into foreign memory, the device takes those of the first again",
        RECEIVE_HPP, (("ring_ + (std::size_t{counter & mask_} <<", "ring_ + (std::size_t{counter} <<"),), WRAP),
    Mutation(
        "receive_posted_over_the_oldest",
        "an entry that the device may be scattering to is replaced",
        RECEIVE_HPP, (("if (requests.size() > free_entries()) return",
                       "if (requests.size() > free_entries() + 1) return"),), RECEIVES),
    Mutation(
        "receive_reposted_unfilled",
        "the device scatters to where uninitialized memory points",
        RECEIVE_HPP, (("        if (!lapped_) return Errc::invalid_argument;\n", ""),), RECEIVES),
    Mutation(
        "receive_ids_by_counter_of_the_next",
        "the program is told that another buffer has the message",
        RECEIVE_HPP, (("return ids_[oldest & mask_];", "return ids_[limit_ & mask_];"),), RECEIVES),
]

SHARED_RECEIVES = [
    Mutation(
        "shared_link_in_host_order",
        "the device follows the link out of the queue",
        SHARED_HPP, (("be16(to).raw(), __ATOMIC_RELAXED", "to, __ATOMIC_RELAXED"),), SHARED),
    Mutation(
        "shared_link_of_retired_entries_missing",
        "the device goes from the last entry of the first lap to where it led before: the list has lost entries",
        SHARED_HPP, (("        link(tail_, index);\n", ""),), SHARED),
    Mutation(
        "shared_last_entry_posted",
        "its link is not there yet when the device follows it",
        SHARED_HPP, (("return entries_ - 1; }  // entries that can be posted", "return entries_; }"),), SHARED),
    Mutation(
        "shared_elements_over_the_link",
        "the first element is taken for the link, and the list is short of it",
        SHARED_HPP, (("\n            .subspan(sizeof(SharedReceiveNextSegment));", ";"),), SHARED),
    Mutation(
        "shared_record_not_masked",
        "the counter has 16 bits; the bits above are reserved and must be zero",
        SHARED_HPP, (("be32(posted_ & 0xffff).raw()", "be32(posted_).raw()"),), SHARED),
    Mutation(
        "shared_record_before_the_entries",
        "a message that arrives now is scattered to where the entry pointed a lap ago",
        SHARED_HPP,
        (("        for (const ReceiveRequest& request : requests) {\n            write(head_, request);\n",
          "        publish(std::uint32_t(requests.size()));\n"
          "        for (const ReceiveRequest& request : requests) {\n            write(head_, request);\n"),
         ("        }\n        publish(static_cast<std::uint32_t>(requests.size()));\n", "        }\n")), ORDER),
    Mutation(
        "shared_entry_retired_twice",
        "the list becomes a circle of entries that are still posted",
        SHARED_HPP, (("if (index >= entries_ || slots_[index].next != kPosted)", "if (index >= entries_)"),), SHARED),
    Mutation(
        "shared_reserved_bytes_left",
        "reserved fields of the link must be zero",
        SHARED_CPP, (("        std::memset(entry(i), 0, sizeof(SharedReceiveNextSegment));\n", "        (void)i;\n"),),
        SHARED),
]

COMPLETION_ENTRIES = [
    Mutation(
        "immediate_received_in_host_order",
        "the program gets the immediate with its bytes reversed",
        f"{HEADERS}/completion_queue.hpp",
        (("completion.immediate = entry.immediate.native();", "completion.immediate = entry.immediate.raw();"),),
        COMPLETIONS),
    Mutation(
        "length_of_atomics_believed",
        "a device that says nothing there leaves the old value in the entry",
        f"{HEADERS}/completion_queue.hpp",
        (("""is_atomic(completion.opcode)
                                   ? queue.atomic_bytes_at(entry.wqe_counter.native())
                                   : entry.byte_count.native();""", "entry.byte_count.native();"),),
        COMPLETIONS),
    Mutation(
        "data_in_the_entry_ignored",
        "the message is not in the buffer that the program is told of",
        f"{HEADERS}/completion_queue.hpp",
        (("scatter_into_entry(entry, queues.receive->last_retired(), completion);", "static_cast<void>(0);"),),
        COMPLETIONS),
    Mutation(
        "data_in_the_entry_go_to_the_next_receive",
        "one message overwrites another's buffer",
        RECEIVE_HPP, (("entry(limit_ - entries() - 1)", "entry(limit_ - entries())"),), COMPLETIONS),
    Mutation(
        "data_before_the_entry_taken_from_it",
        "of a 128-byte entry the program gets transport fields for a message",
        COMPLETION_CPP, (("reinterpret_cast<const std::byte*>(&entry) - kBefore, bytes",
                          "reinterpret_cast<const std::byte*>(&entry), bytes"),), COMPLETIONS),
    Mutation(
        "data_in_the_entry_beyond_the_list",
        "the terminator's address is stored to",
        COMPLETION_CPP, (("        if (ends_list(segments.data())) break;\n", ""),), SHARED_COMPLETIONS),
    Mutation(
        "data_in_the_entry_cut_off_silently",
        "the program takes part of a message for all of it",
        COMPLETION_CPP, (("        data = fill(segments.data(), *data);\n    }\n    if (!data->empty()) fail(completion);\n",
                          "        data = fill(segments.data(), *data);\n    }\n"),), COMPLETIONS),
    Mutation(
        "operands_taken_for_an_element",
        "what an atomic returned is stored to where its operands point",
        COMPLETION_CPP, (("unit = atomic_element_unit(control);", "unit = 2;"),), COMPLETIONS),
    Mutation(
        "shared_completion_retires_the_first",
        "the program is told that another buffer has the message",
        COMPLETION_CPP,
        (("    const std::uint16_t index = entry.wqe_counter.native();\n    const auto id = queues.shared",
          "    const std::uint16_t index = 0;\n    const auto id = queues.shared"),), SHARED_COMPLETIONS),
    Mutation(
        "failed_receive_not_retired",
        "the queue keeps entries that no message will ever use",
        COMPLETION_CPP,
        (("            id = queues.receive->retire();\n", "            id = completion.id;\n"),), COMPLETIONS),
    Mutation(
        "syndromes_exchanged",
        "errors are reported with another reason",
        COMPLETION_CPP,
        (("completion.status = to_errc(error.syndrome);", "completion.status = to_errc(error.vendor_syndrome);"),),
        COMPLETIONS),
]

MUTATIONS = (DOORBELL + ENCODING + SEND_QUEUE + RECEIVING + RECEIVES_IN_PLACE + SHARED_RECEIVES + COMPLETION_ENTRIES)
