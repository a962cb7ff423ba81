// Views and texts arrive with what they look at, once, also where others of the graph own it.
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

const std::string kLong = "a text that is too long to lie in its string";

struct Words {
    std::vector<std::string_view> before;
    std::string text;
    std::vector<std::string_view> after;
    std::pmr::string other;
    Words* self = nullptr;
};

Words words_of(const std::string& text) {
    Words words;
    words.text = text;
    words.other = text;
    return words;
}
void look_at(Words& words) {
    words.before = {std::string_view(words.text).substr(0, 3), words.text};
    words.after = {std::string_view(words.text).substr(2, 4), {}, words.other};
}
void expect_views_into(const Words& got, const std::string& text) {
    EXPECT_EQ(got.text, text);
    EXPECT_EQ(got.before[0].data(), got.text.data());
    EXPECT_EQ(got.before[0], text.substr(0, 3));
    EXPECT_EQ(got.before[1], text);
    EXPECT_EQ(got.after[0].data(), got.text.data() + 2);
    EXPECT_EQ(got.after[0].size(), 4u);
    EXPECT_EQ(got.after[1].data(), nullptr);
    EXPECT_EQ(got.after[1].size(), 0u);
    EXPECT_EQ(got.after[2].data(), got.other.data());
    EXPECT_EQ(got.after[2], text);
}

TEST(ViewTypes, views_lead_into_strings_of_the_graph) {
    for (const std::string& text : {kLong, std::string("short text")}) {
        Loopback<Words> loopback;
        Words root = words_of(text);
        look_at(root);
        root.self = &root;
        expect_views_into(loopback.send(root), text);
        loopback.flush_bytes = 64;
        expect_views_into(loopback.send(root), text);
    }
}

TEST(ViewTypes, views_of_what_nobody_owns_bring_it) {
    Loopback<std::vector<std::string_view>> loopback;
    const std::string text = kLong;
    const std::string_view all = text;
    const auto& got = loopback.send({all.substr(5, 10), all, "literal", all.substr(0, 0)});
    ASSERT_EQ(got.size(), 4u);
    EXPECT_EQ(got[1], all);
    EXPECT_EQ(got[0], all.substr(5, 10));
    EXPECT_EQ(got[0].data(), got[1].data() + 5);
    EXPECT_EQ(got[2], "literal");
    EXPECT_TRUE(got[3].empty());
}

TEST(ViewTypes, many_views_arrive_in_fragments) {
    struct Index {
        std::vector<std::string_view> views;
        std::string text;
    };
    Loopback<Index> loopback;
    loopback.flush_bytes = 4096;
    Index root;
    std::mt19937 random(7);
    for (int i = 0; i < 400'000; ++i) root.text.push_back(static_cast<char>('a' + random() % 26));
    for (int i = 0; i < 15'000; ++i)
        root.views.push_back(std::string_view(root.text).substr(random() % 399'000, random() % 40));
    const Index& got = loopback.send(root);
    ASSERT_EQ(got.views.size(), root.views.size());
    for (std::size_t i = 0; i < root.views.size(); ++i) {
        ASSERT_EQ(got.views[i], root.views[i]);
        if (root.views[i].empty()) continue;
        ASSERT_EQ(got.views[i].data() - got.text.data(), root.views[i].data() - root.text.data());
    }
}

struct Item {
    std::string name;
    Item* next = nullptr;
};
struct Spans {
    std::span<const Item> some;
    std::vector<Item> items;
    std::span<Item> all;
    std::span<const int, 3> fixed;
    Item* one = nullptr;
};

TEST(ViewTypes, spans_lead_into_vectors_and_arrays) {
    for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{64}}) {
        const int numbers[] = {1, 2, 3, 4};
        Spans root{{}, {}, {}, std::span<const int, 3>(numbers + 1, 3)};
        for (int i = 0; i < 200; ++i) root.items.push_back({kLong + std::to_string(i)});
        for (std::size_t i = 0; i < 200; ++i) root.items[i].next = &root.items[(i * 7) % 200];
        root.some = std::span(root.items).subspan(10, 20);
        root.all = root.items;
        root.one = &root.items[199];
        Loopback<Spans> loopback;
        loopback.flush_bytes = flush_bytes;
        const Spans& got = loopback.send(root);
        ASSERT_EQ(got.items.size(), 200u);
        EXPECT_EQ(got.some.data(), got.items.data() + 10);
        EXPECT_EQ(got.some.size(), 20u);
        EXPECT_EQ(got.all.data(), got.items.data());
        EXPECT_EQ(got.one, &got.items[199]);
        EXPECT_EQ(got.fixed[2], 4);
        for (std::size_t i = 0; i < 200; ++i) {
            ASSERT_EQ(got.items[i].name, root.items[i].name);
            ASSERT_EQ(got.items[i].next, &got.items[(i * 7) % 200]);
        }
    }
}

TEST(ViewTypes, spans_that_overlap_arrive_as_one_array) {
    Loopback<std::vector<std::span<const int>>> loopback;
    std::vector<int> numbers(70'000);
    for (int i = 0; i < 70'000; ++i) numbers[static_cast<std::size_t>(i)] = i;
    const std::span<const int> all = numbers;
    const auto& got = loopback.send({all.subspan(3, 100), all.subspan(50, 60'000), {}});
    EXPECT_EQ(got[1].data(), got[0].data() + 47);
    EXPECT_EQ(got[0][99], 102);
    EXPECT_EQ(got[1][59'999], 60'049);
    EXPECT_EQ(got[2].data(), nullptr);
}

struct Texts {
    const char* one = nullptr;
    std::string owner;
    char* middle = nullptr;
    const wchar_t* wide = nullptr;
    const char32_t* wider = nullptr;
    std::vector<const char*> many;
    const char* none = nullptr;
};

TEST(ViewTypes, texts_arrive) {
    for (const std::string& text : {kLong, std::string("short text")})
        for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{32}}) {
            Texts root{"one", text, nullptr, L"wide", U"wider", {}, nullptr};
            root.middle = root.owner.data() + 4;
            for (int i = 0; i < 200; ++i) root.many.push_back(i % 2 ? "odd" : root.owner.c_str());
            Loopback<Texts> loopback;
            loopback.flush_bytes = flush_bytes;
            const Texts& got = loopback.send(root);
            EXPECT_STREQ(got.one, "one");
            EXPECT_EQ(got.owner, text);
            EXPECT_EQ(got.middle, got.owner.data() + 4);
            EXPECT_STREQ(got.wide, L"wide");
            EXPECT_EQ(std::u32string_view(got.wider), U"wider");
            for (std::size_t i = 0; i < 200; ++i) ASSERT_STREQ(got.many[i], root.many[i]);
            EXPECT_EQ(got.many[0], got.owner.c_str());
            EXPECT_EQ(got.none, nullptr);
        }
}

TEST(ViewTypes, long_texts_arrive) {
    Loopback<std::vector<const char*>> loopback;
    const std::string text(600'000, 'x'), other(300'000, 'y');
    const auto& got = loopback.send({text.c_str(), other.c_str(), text.c_str() + 599'990, ""});
    EXPECT_EQ(std::string_view(got[0]), text);
    EXPECT_EQ(std::string_view(got[1]), other);
    EXPECT_EQ(got[2], got[0] + 599'990);
    EXPECT_STREQ(got[3], "");
}

struct Named {
    std::uint64_t number = 0;
    const char* kind = nullptr;
};
struct Owned {
    std::vector<Named> rows;
    std::string name;
};

// Where only texts lead to characters, the first one is taken in at once, and no other needs a
// record. Else all wait for their whole.
TEST(ViewTypes, texts_that_many_rows_share_arrive_once) {
    static const char kinds[] = "apple\0a longer name\0";
    Owned root{std::vector<Named>(20'000), kLong};
    for (std::uint64_t i = 0; i < root.rows.size(); ++i)
        root.rows[i] = {i, i % 7 == 0 ? nullptr : kinds + (i % 3 == 0 ? 6 : i % 3 == 1 ? 0 : 20)};
    root.rows[5].kind = root.name.c_str();
    const auto expect_same = [&](const std::vector<Named>& got, const std::vector<Named>& rows) {
        std::map<const char*, const char*> places;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            ASSERT_STREQ(got[i].kind, rows[i].kind) << i;
            ASSERT_EQ(got[i].number, rows[i].number);
            ASSERT_EQ(places.try_emplace(rows[i].kind, got[i].kind).first->second, got[i].kind);
        }
    };
    for (const std::uint64_t flush_bytes : {kSegmentBytes, std::uint64_t{4096}}) {
        Loopback<std::vector<Named>> alone;
        alone.flush_bytes = flush_bytes;
        expect_same(alone.send(root.rows), root.rows);
        EXPECT_EQ(alone.records, 4u);
        EXPECT_EQ(alone.restarts, 0u);
        Loopback<Owned> with_owner;
        with_owner.flush_bytes = flush_bytes;
        const Owned& got = with_owner.send(root);
        expect_same(got.rows, root.rows);
        EXPECT_EQ(got.rows[5].kind, got.name.c_str());
        EXPECT_EQ(with_owner.restarts, 0u);
    }
}

// Linkers let a literal end another one.
TEST(ViewTypes, texts_that_end_others_share_their_bytes) {
    Loopback<std::vector<const char*>> loopback;
    loopback.flush_bytes = 64;
    const char* const whole = "the whole of it";
    const auto& got = loopback.send({whole + 10, whole + 4, "between", whole, whole + 15, whole});
    for (const std::size_t at : {10u, 4u, 0u, 15u}) {
        const auto i = at == 10 ? 0u : at == 4 ? 1u : at == 0 ? 3u : 4u;
        EXPECT_EQ(got[i], got[3] + at);
        EXPECT_STREQ(got[i], whole + at);
    }
    EXPECT_EQ(got[5], got[3]);
    EXPECT_STREQ(got[2], "between");
}

struct Acyclic {
    const char* text = nullptr;
    std::string_view view;
    std::span<const int> numbers;
};
TEST(ViewTypes, sent_as_acyclic_each_view_has_its_own) {
    Loopback<std::vector<Acyclic>> loopback;
    const int numbers[] = {1, 2, 3};
    const std::vector<Acyclic> root(3, {kLong.c_str(), kLong, numbers});
    const auto& got = loopback.send(root, {.acyclic = true});
    for (const Acyclic& one : got) {
        EXPECT_STREQ(one.text, kLong.c_str());
        EXPECT_EQ(one.view, kLong);
        EXPECT_EQ(one.numbers[2], 3);
    }
    EXPECT_NE(got[0].text, got[1].text);
}

TEST(ViewTypes, a_view_that_is_longer_than_its_objects_is_refused) {
    Loopback<std::string_view> loopback;
    for (const std::uint64_t size : {std::uint64_t{1} << 20, ~std::uint64_t{0}}) {
        write_at_start(loopback, offsetof(StringViewImage, size), size);
        EXPECT_CORRUPT(loopback.send("text"), "");
    }
    write_at_start(loopback, offsetof(StringViewImage, size), std::uint64_t{0});
    EXPECT_CORRUPT(loopback.send("text"), "");
}

TEST(ViewTypes, a_text_without_an_end_is_refused) {
    Loopback<const char*> loopback;
    const std::string text(100, 'x');
    loopback.tamper = [](std::uint64_t, std::byte* bytes, std::uint64_t count) {
        if (std::memchr(bytes, 'x', count) == nullptr) return;
        for (std::uint64_t i = 0; i < count; ++i)
            if (i >= 16) bytes[i] = std::byte('x');
    };
    EXPECT_CORRUPT(loopback.send(text.c_str()), "text has no end");
}

// Its array ends with a zero, but that one is not whole, or it lies elsewhere.
TEST(ViewTypes, a_text_of_wide_characters_without_an_end_is_refused) {
    Loopback<std::vector<const char32_t*>> loopback;
    std::u32string text(100, U'x');
    loopback.tamper = [](std::uint64_t, std::byte* bytes, std::uint64_t count) {
        for (std::uint64_t i = 0; i + 4 <= count; i += 4)
            if (i >= 200 && bytes[i] == std::byte{0}) bytes[i + 1] = std::byte{1};
    };
    EXPECT_CORRUPT(loopback.send({text.c_str(), text.c_str()}), "text has no end");
}

TEST(ViewTypes, texts_into_views_without_a_zero_are_refused) {
    struct Both {
        std::vector<std::string_view> views;
        std::vector<const char*> texts;
    };
    Both root;
    for (int i = 0; i < 40; ++i) root.views.push_back(std::string_view(kLong).substr(0, 20));
    for (int i = 0; i < 40; ++i) root.texts.push_back(kLong.c_str() + i);
    Loopback<Both> loopback;
    const Both& got = loopback.send(root);
    for (std::size_t i = 0; i < 40; ++i) ASSERT_STREQ(got.texts[i], root.texts[i]);
    loopback.tamper = [](std::uint64_t, std::byte* bytes, std::uint64_t count) {
        const std::string_view there(reinterpret_cast<const char*>(bytes), count);
        const std::size_t at = there.find(kLong);
        if (at != there.npos) bytes[at + kLong.size()] = std::byte{'x'};
    };
    EXPECT_CORRUPT(loopback.send(root), "text has no end");
}

TEST(ViewTypes, changed_bytes_arrive_or_are_refused) {
    Words root = words_of("short text");
    look_at(root);
    root.self = &root;
    send_with_each_byte_changed(root, 400, [](const Words& got) {
        std::uint64_t sum = 0;
        for (const auto* views : {&got.before, &got.after})
            for (const std::string_view view : *views)
                for (const char c : view) sum += static_cast<unsigned char>(c);
        for (const char c : got.text + std::string(got.other)) sum += static_cast<unsigned char>(c);
        EXPECT_GT(sum, 0u);
    });
}

}  // namespace
}  // namespace verbatim::objects
