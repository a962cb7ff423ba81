// Coming and going of access words.
#include "access_registry.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::softnic {

void AccessRegistry::add(std::shared_ptr<AccessWord> word) {
    const std::lock_guard lock(mutex_);
    forget_ended();
    if (words_.size() == words_.capacity()) {
        constexpr std::size_t kFirst = 32;
        left_.reserve(std::max(2 * words_.size(), kFirst));  // removal does not allocate
        words_.reserve(std::max(2 * words_.size(), kFirst));
    }
    word->place_ = words_.size();
    words_.push_back(std::move(word));
}

void AccessRegistry::remove(AccessWord& word) noexcept {
    const bool inside = (word.value() & 1) != 0 && !word.writer_ended();
    const std::lock_guard lock(mutex_);
    if (inside)
        left_.push_back(&word);
    else
        erase(word);
}

// Under mutex_.
void AccessRegistry::erase(AccessWord& word) noexcept {
    const std::size_t place = word.place_;
    std::swap(words_[place], words_.back());
    words_[place]->place_ = place;
    words_.pop_back();
}

// Under mutex_.
void AccessRegistry::forget_ended() noexcept {
    std::erase_if(left_, [this](AccessWord* word) {
        if ((word->value() & 1) != 0 && !word->writer_ended()) return false;
        erase(*word);
        return true;
    });
}

}  // namespace verbatim::softnic
