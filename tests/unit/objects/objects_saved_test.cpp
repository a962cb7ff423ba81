// Graph files: what is saved is mapped again, and what is wrong with a file is an error.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include <xxhash.h>

#include <verbatim/objects.hpp>

#include "core_fault.hpp"

namespace verbatim::saved {
namespace {

using test::error_of;
namespace fs = std::filesystem;

struct Entry {
    std::string name;
    std::vector<int> numbers;
    Entry* next = nullptr;
    const int* inner = nullptr;
};
struct Store {
    std::map<std::string, Entry> entries;
    std::unordered_map<std::uint32_t, std::string> words;
    std::list<std::string> lines;
    std::deque<std::uint64_t> queue;
    std::forward_list<std::uint8_t> chain;
    std::vector<bool> flags;
    std::unique_ptr<Entry> own;
    std::shared_ptr<std::string> shared, again;
    std::variant<int, std::string> either;
    std::string_view view;
    Entry* favourite = nullptr;
};

const std::string kLong = "a text that is too long to lie in its string";

Store make_store(int entries) {
    Store store;
    for (int i = 0; i < entries; ++i)
        store.entries[std::to_string(i) + kLong] = {kLong, {i, i + 1, i + 2}, nullptr, nullptr};
    Entry* last = nullptr;
    for (auto& [key, entry] : store.entries) {
        entry.next = last;
        entry.inner = &entry.numbers[1];
        last = &entry;
    }
    store.words = {{1, "one"}, {2, kLong}};
    for (int i = 0; i < 2 * entries; ++i)  // of many: buckets of more than a segment
        store.words[static_cast<std::uint32_t>(10 + i)] = std::to_string(i);
    store.lines = {"a", kLong, "b"};
    store.queue = {1, 2, 3};
    store.chain = {7, 8, 9};
    store.flags = {true, false, true};
    store.own = std::make_unique<Entry>(Entry{"own", {}, last, nullptr});
    store.shared = store.again = std::make_shared<std::string>(kLong);
    store.either = kLong;
    store.view = std::string_view(*store.shared).substr(2, 4);
    store.favourite = last;
    return store;
}

void expect_store(const Store& got, int entries) {
    ASSERT_EQ(got.entries.size(), static_cast<std::size_t>(entries));
    const Entry* last = nullptr;
    for (const auto& [key, entry] : got.entries) {
        EXPECT_EQ(&got.entries.find(key)->second, &entry);
        EXPECT_EQ(key, std::to_string(entry.numbers[0]) + kLong);
        EXPECT_EQ(entry.next, last);
        EXPECT_EQ(entry.inner, &entry.numbers[1]);
        last = &entry;
    }
    EXPECT_EQ(got.words.at(2), kLong);
    ASSERT_EQ(got.words.size(), static_cast<std::size_t>(2 * entries + 2));
    for (int i = 0; i < 2 * entries; ++i)
        ASSERT_EQ(got.words.at(static_cast<std::uint32_t>(10 + i)), std::to_string(i));
    EXPECT_EQ(got.lines, (std::list<std::string>{"a", kLong, "b"}));
    EXPECT_EQ(got.queue, (std::deque<std::uint64_t>{1, 2, 3}));
    EXPECT_EQ(got.chain, (std::forward_list<std::uint8_t>{7, 8, 9}));
    EXPECT_EQ(got.flags, (std::vector<bool>{true, false, true}));
    EXPECT_EQ(got.own->next, last);
    EXPECT_EQ(got.shared.get(), got.again.get());
    EXPECT_EQ(std::get<std::string>(got.either), kLong);
    EXPECT_EQ(got.view.data(), got.shared->data() + 2);
    EXPECT_EQ(got.favourite, last);
}

class Saved : public testing::Test {
  protected:
    Saved() {
        std::string name = "/dev/shm/verbatim-saved-XXXXXX";  // many small files
        folder_ = mkdtemp(name.data());
        path_ = folder_ / "graph";
    }
    ~Saved() override { fs::remove_all(folder_); }

    std::string bytes() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write(const std::string& bytes) const {
        std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    }
    // With sums that fit, as a hostile writer would make them.
    void write_summed(std::string bytes) const {
        const std::uint64_t body = XXH3_64bits(bytes.data() + 4096, bytes.size() - 4096);
        std::memcpy(bytes.data() + 104, &body, sizeof body);
        const std::uint64_t head = XXH3_64bits(bytes.data(), 112);
        std::memcpy(bytes.data() + 112, &head, sizeof head);
        write(bytes);
    }
    template <class T>
    Error refusal(MapOptions options = {}) const {
        return error_of([&] { (void)map<T>(path_, options); });
    }

    fs::path folder_;
    std::string path_;
};

TEST_F(Saved, a_graph_of_many_types_is_mapped_again) {
    const Store store = make_store(20);
    const SaveReport saved = save(path_, store);
    EXPECT_EQ(saved.file_bytes, fs::file_size(path_));
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    auto graph = map<Store>(path_);
    expect_store(*graph, 20);
    EXPECT_TRUE(graph.report().verified);
    EXPECT_EQ(graph.report().objects, saved.objects);
    graph.mutable_view().favourite = nullptr;
    const auto read_only = map<const Store>(path_);
    expect_store(*read_only, 20);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing temporary is left";
}

TEST_F(Saved, a_graph_of_many_segments_and_large_objects_is_mapped_again) {
    Store store = make_store(20'000);
    Entry& large = store.entries.begin()->second;
    large.numbers.resize(1'000'000);
    for (std::size_t i = 3; i < large.numbers.size(); ++i) large.numbers[i] = static_cast<int>(i);
    large.inner = &large.numbers[1];
    EXPECT_GT(save(path_, store).object_bytes, 20 * objects::kSegmentBytes);
    const auto graph = map<Store>(path_);
    expect_store(*graph, 20'000);
    EXPECT_EQ(graph->entries.begin()->second.numbers, large.numbers);
}

TEST_F(Saved, a_large_array_of_objects_that_refer_to_each_other_is_mapped_again) {
    struct Node {
        Node* next = nullptr;
        std::uint64_t number = 0;
    };
    std::vector<Node> nodes(40'000);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = {&nodes[i * 7 % nodes.size()], i};
    save(path_, nodes);
    const auto graph = map<std::vector<Node>>(path_);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        ASSERT_EQ((*graph)[i].number, i);
        ASSERT_EQ((*graph)[i].next, &(*graph)[i * 7 % nodes.size()]);
    }
}

TEST_F(Saved, short_strings_of_a_large_vector_on_the_heap_are_whole) {
    std::vector<std::string> texts(50'000, kLong);
    for (std::size_t i = 0; i < texts.size(); i += 2) texts[i].resize(3);  // still on the heap
    save(path_, texts);
    EXPECT_EQ(*map<std::vector<std::string>>(path_), texts);
}

TEST_F(Saved, a_graph_is_saved_into_a_descriptor) {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT, 0600);
    save(file, make_store(3));
    expect_store(*map<Store>(file), 3);
    save(file, make_store(2));
    expect_store(*map<Store>(file), 2);
    close(file);
    const std::string before = bytes();
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR | O_APPEND}) {
        const int wrong = open(path_.c_str(), flags);
        const Error error = error_of([&] { save(wrong, make_store(1)); });
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(error.remedy().find("descriptor"), std::string::npos);
        close(wrong);
    }
    EXPECT_EQ(bytes(), before);
    for (const int none : {-1, 1 << 20}) {
        const Error error = error_of([&] { (void)map<Store>(none); });
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(error.remedy().find("descriptor"), std::string::npos);
    }
}

TEST_F(Saved, a_path_with_a_zero_byte_names_no_other_file) {
    save(path_, make_store(1));
    const std::string before = bytes();
    const std::string longer = path_ + std::string("\0.old", 5);
    EXPECT_EQ(error_of([&] { save(longer, make_store(2)); }).code(), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { (void)map<Store>(longer); }).code(), Errc::invalid_argument);
    EXPECT_EQ(bytes(), before);
}

TEST_F(Saved, a_name_that_is_a_link_is_followed_and_what_is_no_file_stays) {
    save(path_, make_store(1));
    const fs::path link = folder_ / "link", pipe = folder_ / "pipe", lost = folder_ / "lost";
    fs::create_symlink(path_, link);
    save(link.string(), make_store(2));
    EXPECT_TRUE(fs::is_symlink(link));
    expect_store(*map<Store>(path_), 2);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    fs::create_symlink(pipe, folder_ / "to_pipe");
    fs::create_symlink(folder_ / "not there", lost);
    for (const fs::path& name : {pipe, folder_ / "to_pipe", lost, folder_})
        EXPECT_EQ(error_of([&] { save(name.string(), make_store(3)); }).code(),
                  Errc::invalid_argument)
            << name;
    EXPECT_TRUE(fs::is_fifo(pipe));
    EXPECT_TRUE(fs::is_symlink(lost));
}

TEST_F(Saved, a_placed_file_is_used_as_it_is_and_relocated_where_its_place_is_taken) {
    save_placed(path_, make_store(2'000));
    const std::string before = bytes();
    auto first = map<Store>(path_, {.trusted = true});
    auto second = map<Store>(path_, {.trusted = true});
    expect_store(*first, 2'000);
    expect_store(*second, 2'000);
    EXPECT_FALSE(first.report().verified);
    EXPECT_TRUE(second.report().relocated);
    EXPECT_EQ(first.report().objects, second.report().objects);
    first.mutable_view().queue[0] = 99;
    second.mutable_view().favourite->numbers[0] = 98;
    EXPECT_EQ(second->queue[0], 1u) << "mappings are private";
    expect_store(*map<const Store>(path_, {.trusted = true}), 2'000);
    EXPECT_EQ(bytes(), before);
}

// In a child: does a store there fault?
bool store_faults(const void* at) {
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, [](int) { _exit(7); });  // without a core, with sanitizers too
        auto* const byte = static_cast<volatile unsigned char*>(const_cast<void*>(at));
        *byte = static_cast<unsigned char>(*byte + 1);
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return WEXITSTATUS(status) == 7;
}
template <class T>
void expect_faults(const Received<T>& graph, bool expected) {
    EXPECT_EQ(store_faults(graph.get()), expected);
    EXPECT_EQ(store_faults(&graph->queue.back()), expected);
    EXPECT_EQ(store_faults(&graph->favourite->numbers[0]), expected);
    EXPECT_EQ(store_faults(&graph->entries.rbegin()->second.name[0]), expected);
    expect_store(*graph, 2'000);
}

TEST_F(Saved, stores_into_a_graph_that_is_mapped_read_only_are_faults) {
    save(path_, make_store(2'000));
    expect_faults(map<const Store>(path_), true);
    expect_faults(map<Store>(path_), false);
    save_placed(path_, make_store(2'000));
    const auto placed = map<const Store>(path_, {.trusted = true});
    const auto moved = map<const Store>(path_, {.trusted = true});
    ASSERT_TRUE(moved.report().relocated);
    expect_faults(placed, true);
    expect_faults(moved, true);
    expect_faults(map<Store>(path_, {.trusted = true}), false);
}

TEST_F(Saved, a_placed_file_needs_trust_and_that_nobody_else_can_write_it) {
    save_placed(path_, make_store(2));
    EXPECT_EQ(refusal<Store>().code(), Errc::unsupported);
    fs::permissions(path_, fs::perms::others_write, fs::perm_options::add);
    EXPECT_EQ(refusal<Store>({.trusted = true}).code(), Errc::permission_denied);
}

struct Resourceful {
    std::pmr::string text;
};
struct Weak {
    std::shared_ptr<int> strong;
    std::weak_ptr<int> weak;
};
struct Virtual {
    virtual ~Virtual() = default;
};
static_assert(objects::kCanBePlaced<Store>);
static_assert(!objects::kCanBePlaced<Resourceful> && !objects::kCanBePlaced<Weak>);
static_assert(objects::kHoldsOtherAddresses<Virtual>);

TEST_F(Saved, graphs_with_memory_resources_and_counts_are_verified_ones) {
    save(path_, Resourceful{std::pmr::string(kLong)});
    EXPECT_EQ(std::string_view(map<const Resourceful>(path_)->text), kLong);
    const auto five = std::make_shared<int>(5);
    save(path_, Weak{five, five});
    const auto graph = map<Weak>(path_);
    EXPECT_EQ(*graph->weak.lock(), 5);
}

struct Before {
    int id = 1;
    int amount = 2;
};
struct After {
    int id = 1;
    double amount = 2;
};

TEST_F(Saved, a_file_of_another_type_names_the_first_field_that_differs) {
    save(path_, std::vector<Before>{{}});
    const Error error = refusal<std::vector<After>>();
    EXPECT_EQ(error.code(), Errc::type_mismatch);
    EXPECT_NE(std::string(error.what()).find("the file has"), std::string::npos) << error.what();
    EXPECT_EQ(refusal<Store>().code(), Errc::type_mismatch);
}

TEST_F(Saved, other_files_other_versions_and_missing_ones_are_told_apart) {
    EXPECT_EQ(refusal<Store>().code(), Errc::invalid_argument);
    write("some text");
    EXPECT_EQ(refusal<Store>().code(), Errc::invalid_argument);
    write(std::string(8192, 'x'));
    EXPECT_EQ(refusal<Store>().code(), Errc::invalid_argument);
    save(path_, make_store(1));
    std::string newer = bytes();
    ++newer[8];
    write_summed(newer);
    EXPECT_EQ(refusal<Store>().code(), Errc::unsupported);
    ASSERT_EQ(unlink(path_.c_str()), 0);
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_EQ(refusal<Store>().code(), Errc::invalid_argument) << "a pipe does not make it wait";
    EXPECT_EQ(error_of([&] { save(folder_ / "none" / "graph", 1); }).code(),
              Errc::invalid_argument);
}

TEST_F(Saved, every_change_of_a_byte_and_every_cut_is_found) {
    save(path_, std::vector<std::string>{"a", kLong});
    const std::string good = bytes();
    using Texts = std::vector<std::string>;
    for (std::size_t at = 0; at < good.size(); at += at == 119 ? 4096 - 119 : 1 + at / 4096) {
        std::string changed = good;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        write(changed);
        EXPECT_NE(refusal<Texts>().code(), Errc::ok) << "byte " << at;
    }
    for (std::size_t length = 0; length < good.size(); length += 7) {
        write(good.substr(0, length));
        EXPECT_NE(refusal<Texts>().code(), Errc::ok) << length << " bytes";
    }
    write(good + "x");
    EXPECT_EQ(refusal<Texts>().code(), Errc::corrupt_message);
}

TEST_F(Saved, files_with_sums_that_fit_are_verified_all_the_same) {
    save(path_, make_store(2));
    const std::string good = bytes();
    for (std::size_t at = 0; at < good.size(); at += at == 111 ? 4096 - 111 : 1 + at / 4096 * 4) {
        std::string changed = good;
        changed[at] = static_cast<char>(changed[at] ^ (at % 3 == 0 ? 0x80 : 0x11));
        write_summed(changed);
        try {
            const auto graph = map<Store>(path_);
            std::size_t sum = 0;
            for (const auto& [key, entry] : graph->entries) sum += entry.numbers.size();
            EXPECT_LT(sum, good.size());
        } catch (const Error& error) {
            EXPECT_EQ(error.scope(), Scope::request) << error.what();
        }
    }
}

TEST_F(Saved, a_verified_graph_does_not_change_with_its_file) {
    save(path_, make_store(5));
    const auto graph = map<Store>(path_);
    write(std::string(bytes().size(), '\xff'));
    fs::resize_file(path_, 0);
    expect_store(*graph, 5);
}

TEST_F(Saved, a_save_that_fails_leaves_the_former_file_and_nothing_else) {
    save(path_, make_store(3));
    const std::string before = bytes();
    fs::create_directory(folder_ / "taken");
    EXPECT_EQ(error_of([&] { save((folder_ / "taken").string(), make_store(3)); }).code(),
              Errc::invalid_argument);
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
    EXPECT_EQ(refusal<Store>({.max_bytes = 100}).code(), Errc::graph_too_large);
}

TEST_F(Saved, a_process_that_is_killed_while_it_saves_leaves_the_former_file) {
    save(path_, make_store(3));
    const pid_t child = fork();
    if (child == 0) {
        const Store store = make_store(20'000);
        while (true) save(path_ + "-other", store);
    }
    const auto is_saving = [this] {
        for (const auto& entry : fs::directory_iterator(folder_))
            if (entry.path().string().find("-other.") != std::string::npos) return true;
        return false;
    };
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(20));
         !is_saving() && !deadline.passed();) {
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    expect_store(*map<Store>(path_), 3);
    if (fs::exists(path_ + "-other")) expect_store(*map<Store>(path_ + "-other"), 20'000);
}

}  // namespace
}  // namespace verbatim::saved
