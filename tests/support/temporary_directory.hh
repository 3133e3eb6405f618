// A folder of a test's own.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>

namespace corewire::testing {

/// A file system in memory, where there is one: fsync(2) takes its time on a disk that others write to.
inline std::filesystem::path in_memory() {
    const std::filesystem::path shm = "/dev/shm";
    return ::access(shm.c_str(), W_OK | X_OK) == 0 ? shm : std::filesystem::temp_directory_path();
}

/// Removed with everything in it.
class temporary_directory {
public:
    explicit temporary_directory(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
        std::string pattern = (in / "corewire-test-XXXXXX").string();
        BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    ~temporary_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    temporary_directory(const temporary_directory&) = delete;
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

} // namespace corewire::testing
