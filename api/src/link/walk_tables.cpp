#include "walk_tables.hpp"

#include <new>
#include <utility>

namespace verbatim::objects {

WalkTables::WalkTables(std::shared_ptr<Arena> arena, std::shared_ptr<SentClasses> sent,
                       std::shared_ptr<ToldClasses> told, std::shared_ptr<SentBuffers> buffers)
    : arena_(std::move(arena)),
      sent_(std::move(sent)),
      told_(std::move(told)),
      buffers_(std::move(buffers)) {
    pack_.reserve(kMostKept);
}

std::unique_ptr<PackTables> WalkTables::lend_pack() {
    if (pack_.empty()) {
        auto made = std::make_unique<PackTables>(arena_);
        made->classes = sent_;
        return made;
    }
    std::unique_ptr<PackTables> tables = std::move(pack_.back());
    pack_.pop_back();
    // Nothing of the last walk is under way.
    tables->staging.begin();
    tables->staging.buffers().set_retired();
    return tables;
}

void WalkTables::give_back(std::unique_ptr<PackTables> tables) noexcept {
    if (std::exchange(unretired_, false)) {
        try {
            tables->staging.begin();
            buffers_->parked.take_over(tables->staging.buffers());
        } catch (const std::bad_alloc&) {
            (void)tables.release();  // lost, rather than reused
            return;
        }
    }
    tables->staging.buffers().shrink();
    // More than a walk and the sends before it need are not kept.
    if (pack_.size() < pack_.capacity()) pack_.push_back(std::move(tables));
}

void WalkTables::set_retired() {
    buffers_->parked.set_retired();
    buffers_->parked.shrink(0);
}

std::unique_ptr<MendTables> WalkTables::lend_mend() {
    if (mend_) return std::move(mend_);
    auto made = std::make_unique<MendTables>();
    made->classes = told_;
    return made;
}

ComposedTables& WalkTables::made(std::unique_ptr<ComposedTables>& tables) {
    if (!tables) tables = std::make_unique<ComposedTables>();
    return *tables;
}

}  // namespace verbatim::objects
