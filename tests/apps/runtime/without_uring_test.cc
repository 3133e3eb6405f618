// A program that writes a file where io_uring is forbidden: it works, and one line says what it does without.
// ctest: processors=2
#include <corewire/apps/runtime/app.hh>
#include <corewire/file.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace corewire;

namespace {

/// As a container's seccomp profile does.
bool forbid_io_uring() {
    std::array<sock_filter, 4> program{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{program.size(), program.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

task<> write_a_file(std::string path) {
    file f = co_await file::create(path);
    co_await f.write("without a ring", 0);
    co_await f.close();
}

/// What a program without io_uring says until it has written `path`. Its exit code must be 0.
std::string said_by_program(std::vector<std::string> arguments, const std::string& path) {
    int pipe[2];
    BOOST_REQUIRE(::pipe(pipe) == 0);
    std::cout.flush(); // or the child would print it too
    std::fflush(nullptr);
    const pid_t child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) {
        ::dup2(pipe[1], 1);
        ::dup2(pipe[1], 2);
        ::close(pipe[0]);
        if (!forbid_io_uring()) ::_exit(90);
        int code = 91;
        {
            corewire::app program("prog", "A program under test");
            std::vector<char*> argv{const_cast<char*>("prog")};
            for (std::string& a : arguments) argv.push_back(a.data());
            code = program.run_on_every_core(static_cast<int>(argv.size()), argv.data(), [&path] { return write_a_file(path); });
        }
        ::_exit(code);
    }
    ::close(pipe[1]);
    std::string said;
    std::array<char, 4096> bytes;
    for (ssize_t n; (n = ::read(pipe[0], bytes.data(), bytes.size())) > 0;) said.append(bytes.data(), static_cast<std::size_t>(n));
    ::close(pipe[0]);
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0, said);
    return said;
}

unsigned times(const std::string& text, const std::string& words) {
    unsigned count = 0;
    for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
    return count;
}

} // namespace

BOOST_AUTO_TEST_SUITE(without_uring)

BOOST_AUTO_TEST_CASE(one_line_says_that_there_is_no_io_uring_however_many_shards_use_files) {
    const std::string path = (std::filesystem::temp_directory_path() / ("cw-without-uring-" + std::to_string(::getpid()))).string();
    for (const char* level : {"info", "warn"}) { // at the start; or, where that is not shown, with the first use
        const std::string said = said_by_program({"--net=wire", "--log-level", level}, path);
        BOOST_TEST(times(said, "files and pipes go through 4 helper threads a shard") == 1u, said);
        BOOST_TEST(times(said, "kernel.io_uring_disabled=0") == 1u, said);
        BOOST_TEST((times(said, "no io_uring: files") == 1) == (level == std::string{"info"}), said);
        std::ifstream written(path);
        BOOST_TEST(std::string(std::istreambuf_iterator<char>(written), {}) == "without a ring");
        std::filesystem::remove(path);
    }
}

BOOST_AUTO_TEST_SUITE_END()
