// An inbox item is work that one thread hands to a lane of another.
#pragma once

#include <utility>

namespace verbatim {

struct InboxItem {
    void (*take)(InboxItem& item) noexcept = nullptr;  // in the lane's thread
    void (*drop)(InboxItem& item) noexcept = nullptr;  // instead: the lane ended
    // In the lane's thread, with each poll, of one that has found no room: StalledItems. It may be
    // in an inbox again by then.
    void (*retry)(InboxItem& item) noexcept = nullptr;
};

// A function as an item. It must not throw.
template <class Function>
struct InboxTask : InboxItem {
    explicit InboxTask(Function wanted) : function(std::move(wanted)) {
        take = [](InboxItem& item) noexcept {
            auto* const task = static_cast<InboxTask*>(&item);
            task->function();
            delete task;
        };
        drop = [](InboxItem& item) noexcept { delete static_cast<InboxTask*>(&item); };
    }
    Function function;
};

}  // namespace verbatim
