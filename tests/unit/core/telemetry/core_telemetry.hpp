// A directory of segments for a test alone, and contexts that use it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <verbatim/core/telemetry.hpp>

#include "pair/connected_pair.hpp"

namespace verbatim::test {

class SegmentDirectory {
  public:
    SegmentDirectory() {
        char path[] = "/dev/shm/verbatim-test-XXXXXX";
        EXPECT_NE(mkdtemp(path), nullptr);
        path_ = path;
    }
    ~SegmentDirectory() { std::filesystem::remove_all(path_); }
    SegmentDirectory(const SegmentDirectory&) = delete;
    SegmentDirectory& operator=(const SegmentDirectory&) = delete;

    const std::string& path() const { return path_; }
    Config config() const {
        Config config = small_config();
        config.telemetry.enabled = true;
        config.telemetry.directory = path_;
        return config;
    }
    std::vector<telemetry::Process> read() const {
        std::vector<telemetry::Process> all;
        for (const std::string& path : telemetry::segments(path_))
            all.push_back(telemetry::read_segment(path));
        return all;
    }

  private:
    std::string path_;
};

}  // namespace verbatim::test
