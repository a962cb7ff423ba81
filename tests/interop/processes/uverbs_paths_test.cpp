// Programs that look for devices in /sys by themselves find ours there, whichever of the C
// library's functions they use, and whichever name a checked or old build gives it.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <verbatim/uverbs/uverbs.hpp>

namespace {

using namespace verbatim;

constexpr const char* kClass = "/sys/class/infiniband";
constexpr const char* kFile = "/sys/class/infiniband/mlx5_0/node_type";
constexpr const char* kLink = "/sys/class/infiniband/mlx5_0/device";
constexpr const char* kPlace = "/sys/devices/pci7662:00/7662:00:00.0";
constexpr const char* kDevice = "/dev/infiniband/uverbs0";

// By name, as the dynamic linker finds it for a program: headers hide some of them.
template <class Function>
Function* function(const char* name) {
    auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
    EXPECT_NE(found, nullptr) << name;
    return found;
}

std::string first_line(int file) {
    char text[64] = {};
    EXPECT_GE(file, 0) << std::strerror(errno);
    EXPECT_GT(read(file, text, sizeof text - 1), 0);
    close(file);
    return text;
}

class UverbsPaths : public testing::Test {
  protected:
    void SetUp() override { ASSERT_NE(uverbs::sysfs_root(), nullptr); }
};

TEST_F(UverbsPaths, FilesOpenByEveryName) {
    for (const char* const name : {"open", "open64"})
        EXPECT_EQ(first_line(function<int(const char*, int, ...)>(name)(kFile, O_RDONLY)),
                  "1: CA\n");
    for (const char* const name : {"__open_2", "__open64_2"})
        EXPECT_EQ(first_line(function<int(const char*, int)>(name)(kFile, O_RDONLY)), "1: CA\n");
    for (const char* const name : {"openat", "openat64"})
        EXPECT_EQ(
            first_line(function<int(int, const char*, int, ...)>(name)(AT_FDCWD, kFile, O_RDONLY)),
            "1: CA\n");
    for (const char* const name : {"__openat_2", "__openat64_2"})
        EXPECT_EQ(first_line(function<int(int, const char*, int)>(name)(AT_FDCWD, kFile, O_RDONLY)),
                  "1: CA\n");
    for (const char* const name : {"fopen", "fopen64"}) {
        FILE* const file = function<FILE*(const char*, const char*)>(name)(kFile, "r");
        ASSERT_NE(file, nullptr);
        EXPECT_EQ(first_line(dup(fileno(file))), "1: CA\n");
        std::fclose(file);
    }
    std::string word;
    std::ifstream(kFile) >> word;
    EXPECT_EQ(word, "1:");
}

TEST_F(UverbsPaths, FilesOpenRelativeToAnOpenDirectory) {
    const int directory = open(kClass, O_RDONLY | O_DIRECTORY);
    ASSERT_GE(directory, 0);
    EXPECT_EQ(first_line(openat(directory, "mlx5_0/node_type", O_RDONLY)), "1: CA\n");
    close(directory);
}

TEST_F(UverbsPaths, DirectoriesAreListed) {
    DIR* const directory = opendir(kClass);
    ASSERT_NE(directory, nullptr);
    std::vector<std::string> names;
    while (const dirent* const entry = readdir(directory))
        if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    closedir(directory);
    EXPECT_EQ(names, std::vector<std::string>{"mlx5_0"});
    for (const char* const name : {"scandir", "scandir64"}) {
        dirent** entries = nullptr;
        const auto visible = [](const dirent* entry) { return int{entry->d_name[0] != '.'}; };
        using Scan = int(const char*, dirent***, int (*)(const dirent*), void*);
        ASSERT_EQ(function<Scan>(name)(kClass, &entries, visible, nullptr), 1);
        EXPECT_STREQ(entries[0]->d_name, "mlx5_0");
        std::free(entries[0]);
        std::free(entries);
    }
    for (const char* const name : {"glob", "glob64"}) {
        glob_t found{};
        using Glob = int(const char*, int, void*, glob_t*);
        EXPECT_EQ(function<Glob>(name)("/sys/class/infiniband/mlx5_*", 0, nullptr, &found), 0);
        EXPECT_EQ(found.gl_pathc, 1u);
        globfree(&found);
    }
    EXPECT_TRUE(std::filesystem::is_directory(std::string(kClass) + "/mlx5_0/ports/1"));
}

TEST_F(UverbsPaths, FilesAreDescribedByEveryName) {
    struct stat facts {};
    for (const char* const name : {"stat", "stat64", "lstat", "lstat64"})
        EXPECT_EQ(function<int(const char*, struct stat*)>(name)(kFile, &facts), 0) << name;
    for (const char* const name : {"__xstat", "__xstat64", "__lxstat", "__lxstat64"})
        for (const int layout : {0, 1})
            EXPECT_EQ(function<int(int, const char*, struct stat*)>(name)(layout, kFile, &facts), 0)
                << name;
    for (const char* const name : {"fstatat", "fstatat64"})
        EXPECT_EQ(
            function<int(int, const char*, struct stat*, int)>(name)(AT_FDCWD, kFile, &facts, 0),
            0);
    for (const char* const name : {"__fxstatat", "__fxstatat64"}) {
        using Describe = int(int, int, const char*, struct stat*, int);
        EXPECT_EQ(function<Describe>(name)(1, AT_FDCWD, kFile, &facts, 0), 0);
    }
    struct statx more {};
    EXPECT_EQ(statx(AT_FDCWD, kFile, 0, STATX_BASIC_STATS, &more), 0);
    EXPECT_TRUE(S_ISREG(facts.st_mode));
    ASSERT_EQ(lstat(kLink, &facts), 0);
    EXPECT_TRUE(S_ISLNK(facts.st_mode));
    for (const char* const name : {"access", "euidaccess", "eaccess"})
        EXPECT_EQ(function<int(const char*, int)>(name)(kFile, R_OK), 0) << name;
    EXPECT_EQ(faccessat(AT_FDCWD, kFile, R_OK, 0), 0);
}

// UCX learns from it which devices are near each other.
TEST_F(UverbsPaths, LinksLeadToAPlaceOnThePciBus) {
    char target[PATH_MAX] = {};
    EXPECT_STREQ(realpath(kLink, target), kPlace);
    EXPECT_STREQ(function<char*(const char*, char*, std::size_t)>("__realpath_chk")(kLink, target,
                                                                                    sizeof target),
                 kPlace);
    for (const char* const name : {"realpath", "canonicalize_file_name"}) {
        char* const made = function<char*(const char*, char*)>(name)(kLink, nullptr);
        EXPECT_STREQ(made, kPlace);
        std::free(made);
    }
    EXPECT_STREQ(realpath("/sys/bus/pci/devices/7662:00:00.0", target), kPlace);
    EXPECT_EQ(first_line(open((std::string(kPlace) + "/vendor").c_str(), O_RDONLY)), "0x15b3\n");
    for (const char* const name : {"readlink", "__readlink_chk"}) {
        using ReadLink = ssize_t(const char*, char*, std::size_t, std::size_t);
        const ssize_t bytes = function<ReadLink>(name)(kLink, target, sizeof target, sizeof target);
        EXPECT_EQ(std::string(target, static_cast<std::size_t>(bytes)), "../../../7662:00:00.0");
    }
    EXPECT_GT(readlinkat(AT_FDCWD, kLink, target, sizeof target), 0);
}

TEST_F(UverbsPaths, OtherPathsAreLeftAlone) {
    char target[PATH_MAX] = {};
    EXPECT_EQ(access("/sys/class/infiniband_other", F_OK), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_STREQ(realpath("/sys/class/net", target), "/sys/class/net");
    EXPECT_EQ(realpath("/sys/class/infiniband/mlx5_7", target), nullptr);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(function<int(const char*, int, ...)>("open")(nullptr, O_RDONLY), -1);
    EXPECT_EQ(errno, EFAULT);
    const std::string longest = std::string(kClass) + "/" + std::string(PATH_MAX, 'x');
    EXPECT_EQ(access(longest.c_str(), F_OK), -1);
    EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(UverbsPaths, TheDeviceFileIsACharacterDevice) {
    struct stat facts {};
    ASSERT_EQ(stat(kDevice, &facts), 0);
    EXPECT_TRUE(S_ISCHR(facts.st_mode));
    EXPECT_EQ(facts.st_rdev, makedev(231, 192));
    EXPECT_EQ(access(kDevice, R_OK | W_OK), 0);
    EXPECT_EQ(access(kDevice, X_OK), -1);
    EXPECT_EQ(access("/dev/infiniband/uverbs5", F_OK), -1);
    const int file = openat(AT_FDCWD, kDevice, O_RDWR);
    ASSERT_GE(file, 0);
    ASSERT_EQ(function<int(int, int, struct stat*)>("__fxstat")(1, file, &facts), 0);
    EXPECT_TRUE(S_ISCHR(facts.st_mode));
    close(file);
}

}  // namespace
