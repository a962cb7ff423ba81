// Graphs of fault tests, whose transfers have everything that can be interrupted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <verbatim/objects.hpp>

#include "shapes/objects_shapes.hpp"

namespace verbatim::steps {

// A graph whose transfer has everything: several segments, one object of more than a segment,
// records of references that have left, and a beginning anew, because a part is met before its
// whole.
struct Whole;
struct Part {
    Whole* owner = nullptr;
    std::uint64_t value = 0;
};
struct Whole {
    std::uint64_t before = 0;
    Part part;
};
struct Story {
    std::vector<std::string*> ahead;
    std::vector<std::string> texts;
    std::vector<std::uint64_t> bulk;
    Part* part = nullptr;  // behind the others, which have left by then
};
// The same with objects of classes that the receiver is told of on the way.
struct OpenStory : Story {
    std::vector<std::unique_ptr<shapes::Shape>> shapes;
    shapes::Shape* last = nullptr;
};
VERBATIM_DESCRIBE(Story, ahead, texts, bulk, part)
VERBATIM_DESCRIBE_DERIVED(OpenStory, (Story), shapes, last)
struct OtherStory {
    std::uint32_t number = 0;
};

inline void add_shapes(Story&) {}
inline void add_shapes(OpenStory& story) {
    for (int i = 0; i < 400; ++i) {
        if (i % 3 != 0) {
            story.shapes.push_back(std::make_unique<shapes::Circle>(i));
        } else {
            auto group = std::make_unique<shapes::Group>();
            group->name = std::string(40, 'g');
            group->parts.push_back(std::make_unique<shapes::Circle>(i));
            story.shapes.push_back(std::move(group));
        }
    }
    story.shapes.push_back(std::make_unique<shapes::Even>(4));  // of a class that comes late
    story.last = story.shapes.back().get();
}

// Owns what its story leads to.
template <class S>
struct StoryMaker {
    Whole whole{5, {&whole, 6}};
    S story;
    StoryMaker() {
        story.part = &whole.part;
        for (std::size_t i = 0; i < 6'000; ++i)
            story.texts.push_back("text " + std::to_string(i) + std::string(i % 90, 't'));
        for (std::size_t i = 0; i < story.texts.size(); i += 7)
            story.ahead.push_back(&story.texts[story.texts.size() - 1 - i]);
        story.bulk.assign(50'000, 7);
        add_shapes(story);
    }
    StoryMaker(const StoryMaker&) = delete;
    StoryMaker& operator=(const StoryMaker&) = delete;
};

inline bool has_shapes(const Story&, const Story&) { return true; }
inline bool has_shapes(const OpenStory& got, const OpenStory& story) {
    if (got.shapes.size() != story.shapes.size() || got.last != got.shapes.back().get())
        return false;
    for (std::size_t i = 0; i < got.shapes.size(); ++i)
        if (got.shapes[i]->tell() != story.shapes[i]->tell()) return false;
    return true;
}

template <class S>
bool is_whole(const S& got) {
    const StoryMaker<S> maker;
    const S& story = maker.story;
    if (got.texts != story.texts || got.bulk != story.bulk ||
        got.ahead.size() != story.ahead.size() || got.part->value != 6 ||
        &got.part->owner->part != got.part || got.part->owner->before != 5)
        return false;
    for (std::size_t i = 0; i < story.ahead.size(); ++i)
        if (got.ahead[i] - got.texts.data() != story.ahead[i] - story.texts.data()) return false;
    return has_shapes(got, story);
}

}  // namespace verbatim::steps
