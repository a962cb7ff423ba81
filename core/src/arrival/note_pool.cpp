// Slots are taken and given back.
#include "note_pool.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace verbatim {

NotePool::~NotePool() {
    for (NotePage* const page : pages_) memory_.arena().destroy(page);
}

void NotePool::grow() {
    const std::size_t first = pages_.size() * NotePage::kNotes, end = first + NotePage::kNotes;
    pages_.reserve(pages_.size() + 1);
    free_.reserve(end);
    pages_.push_back(memory_.arena().make<NotePage>());
    for (std::size_t slot = first; slot != end; ++slot) give_back(static_cast<std::uint32_t>(slot));
}

void NotePool::give_back(std::uint32_t slot) noexcept {
    free_.push_back(slot);
    std::push_heap(free_.begin(), free_.end(), std::greater());
}

// The lowest slot, so that few lines are in use.
NotePool::Note::Note(std::shared_ptr<NotePool> pool) : pool_(std::move(pool)) {
    const std::lock_guard lock(pool_->mutex_);
    std::vector<std::uint32_t>& free = pool_->free_;
    if (free.empty()) pool_->grow();
    slot_ = free.front();
    page_ = pool_->pages_[page_number()];
    // Before anyone has its key: peers count from 1.
    __atomic_store_n(&page_->words[place()], 0, __ATOMIC_RELEASE);
    region_ = pool_->memory_.lend(std::as_writable_bytes(std::span(&page_->words[place()], 1)),
                                  Access::local_write | Access::remote_write);
    std::pop_heap(free.begin(), free.end(), std::greater());
    free.pop_back();
}

NotePool::Note::~Note() {
    region_.reset();
    const std::lock_guard lock(pool_->mutex_);
    pool_->give_back(slot_);
}

}  // namespace verbatim
