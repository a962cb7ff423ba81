// Files with the key of [connect]: the forms that are taken, and what is said about the others.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <verbatim/core/context.hpp>

#include "authentication/secret_key.hpp"

namespace verbatim {
namespace {

namespace fs = std::filesystem;

// 32 bytes of which no two are alike.
std::string raw_key() {
    std::string bytes;
    for (int i = 0; i < 32; ++i) bytes += static_cast<char>(i * 7 + 3);
    return bytes;
}
std::string hex_of(const std::string& bytes, const char* digits = "0123456789abcdef") {
    std::string text;
    for (const char c : bytes) {
        text += digits[static_cast<unsigned char>(c) >> 4];
        text += digits[static_cast<unsigned char>(c) & 15];
    }
    return text;
}
const std::string kBase64 = "AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dw=";

class KeyFile : public testing::Test {
  protected:
    KeyFile() { fs::create_directory(directory_); }
    ~KeyFile() override { fs::remove_all(directory_); }
    std::string write(const std::string& text, mode_t mode = 0600) {
        const std::string path = directory_ / "key";
        fs::remove(path);
        std::ofstream(path, std::ios::binary) << text;
        chmod(path.c_str(), mode);
        return path;
    }
    static SecretKey::Code code(const std::string& path) {
        return SecretKey::from_file(path)->code_of("test", {});
    }
    static Error error(const std::string& path) {
        try {
            (void)SecretKey::from_file(path);
        } catch (const Error& thrown) {
            return thrown;
        }
        ADD_FAILURE() << "it was taken";
        return {Errc::ok, "nothing", "nothing"};
    }
    static void expect(const Error& thrown, Errc code, const std::string& part) {
        EXPECT_EQ(thrown.code(), code);
        EXPECT_NE(std::string(thrown.what()).find(part), std::string::npos) << thrown.what();
    }
    const fs::path directory_ =
        fs::temp_directory_path() / ("key_test." + std::to_string(getpid()));
};

TEST_F(KeyFile, holds_one_key_in_each_of_its_forms) {
    const auto wanted = code(write(raw_key()));
    EXPECT_EQ(code(write(hex_of(raw_key()))), wanted);
    EXPECT_EQ(code(write(hex_of(raw_key(), "0123456789ABCDEF") + "\n")), wanted);
    EXPECT_EQ(code(write(kBase64)), wanted);
    EXPECT_EQ(code(write(kBase64 + "\r\n")), wanted);
    EXPECT_EQ(code(write(kBase64.substr(0, 43) + "\n")), wanted) << "without padding";
    std::string other = raw_key();
    other[31] ^= 1;
    EXPECT_NE(code(write(other)), wanted);
}

TEST_F(KeyFile, that_others_may_read_is_refused_with_the_command_that_mends_it) {
    for (const mode_t mode : {0640U, 0604U, 0660U, 0610U, 0644U}) {
        const std::string path = write(hex_of(raw_key()), mode);
        const Error thrown = error(path);
        expect(thrown, Errc::permission_denied, "chmod 600 " + path);
        EXPECT_EQ(thrown.object(), path);
        EXPECT_EQ(std::string(thrown.what()).find(hex_of(raw_key()).substr(0, 8)),
                  std::string::npos)
            << "a message must not tell the key";
    }
    (void)code(write(hex_of(raw_key()), 0400));
}

TEST_F(KeyFile, that_is_missing_or_no_file_is_refused) {
    expect(error(directory_ / "none"), Errc::config_error, "key_file of [connect]");
    expect(error(directory_), Errc::config_error, "no regular file");
    const std::string pipe = directory_ / "pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    expect(error(pipe), Errc::config_error, "no regular file");
}

TEST_F(KeyFile, that_holds_no_key_is_refused) {
    const std::string hex = hex_of(raw_key());
    for (const std::string& text :
         {std::string(), std::string("secret"), hex.substr(2), hex + "00", hex.substr(0, 63) + "g",
          raw_key().substr(1), raw_key() + "x", hex + "\n" + hex, "0x" + hex, kBase64.substr(0, 40),
          std::string(100, '\x81'), std::string(1 << 20, 'a'),
          std::string("a password of 32 characters, yes")})
        expect(error(write(text)), Errc::config_error, "verbatim key FILE");
    expect(error(write(std::string(32, '\0'))), Errc::config_error, "all the same");
    expect(error(write(std::string(64, '0'))), Errc::config_error, "all the same");
}

TEST_F(KeyFile, of_another_user_is_refused) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    const std::string path = write(raw_key());
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    expect(error(path), Errc::permission_denied, "user 12345");
}

TEST_F(KeyFile, that_is_bad_is_told_when_the_context_is_made) {
    Config config;
    config.device.kind = "softnic";
    config.connect.key_file = directory_ / "none";
    EXPECT_THROW(Context{config}, Error);
    config.connect.key_file = write(raw_key());
    const Context context(config);
    EXPECT_EQ(context.config().connect.key_file, config.connect.key_file);
}

}  // namespace
}  // namespace verbatim
