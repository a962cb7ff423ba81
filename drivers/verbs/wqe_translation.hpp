// One send WQE as a request of verbs. Pure: no state, no allocation. Threads: any.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include <verbatim/driver/queue_view.hpp>

#include "../softqueue/wqe_reader.hpp"
#include "key_table.hpp"

namespace verbatim::verbs {

// What a translation needs to know of the queue pair.
struct TranslationFacts {
    const KeyTable* keys = nullptr;
    std::uint32_t ring_key = 0;
    std::uint32_t inline_bytes = 0;
};

// Fills in `work` but for its id and link; `elements` is room for its list and becomes part of it.
// False: verbs has no such request, or it names what is not there.
bool translate_wqe(const softnic::WqeReader& wqe, const TranslationFacts& facts,
                   std::span<ibv_sge> elements, ibv_send_wr& work) noexcept;

}  // namespace verbatim::verbs
