// libcorewire_packetdrill.so, driven as packetdrill drives it: every script below scripts/ is played on its virtual clock.
// ctest: timeout=120
#include "player.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <netinet/in.h>
#include <netinet/tcp.h>

using namespace corewire::conformance;

namespace {

std::filesystem::path script_folder() {
    const char* source = std::getenv("COREWIRE_SOURCE_DIR");
    return std::filesystem::path(source != nullptr ? source : ".") / "tests/conformance/scripts";
}

std::vector<std::string> scripts() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(script_folder())) {
        if (entry.path().extension() == ".pkt") names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string text_of(const std::string& name) {
    std::ifstream file(script_folder() / name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void play(const std::string& text, const char* flags = "linux settings=none") {
    player p(flags);
    try {
        p.play(text);
    } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(packetdrill)

BOOST_AUTO_TEST_CASE(every_script_of_the_folder_plays_as_written) {
    BOOST_TEST(scripts().size() >= 3u);
    for (const std::string& name : scripts()) {
        const std::string text = text_of(name);
        BOOST_TEST_CONTEXT(name) { play(text, flags_of_script(text, "linux settings=none").c_str()); }
    }
}

BOOST_AUTO_TEST_CASE(a_script_that_expects_what_never_leaves_fails_and_does_not_hang) {
    player p("linux");
    BOOST_CHECK_THROW(p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 > . 1:1(0) ack 1\n"), script_failed);
}

BOOST_AUTO_TEST_CASE(each_personality_has_its_own_order_of_options) {
    const std::string script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
                               "+0 < S 0:0(0) win 32792 <mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>\n";
    play(script + "+0 > S. 0:0(0) ack 1 win 65160 <mss 1460,sackOK,TS val 1 ecr 7,nop,wscale 7>\n", "linux settings=none");
    play(script + "+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,nop,wscale 7,sackOK,TS val 1 ecr 7>\n", "freebsd settings=none");
    play(script + "+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,TS val 1 ecr 7,nop,wscale 7>\n", "default settings=none");
}

// ---- Fast Open (RFC 7413); the key and the cookies are those of Linux's documentation ----

constexpr const char* fast_server = "linux settings=none fast_open=3 fast_open_key=a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4";

BOOST_AUTO_TEST_CASE(fast_open_a_server_gives_cookies_and_takes_data_with_them) {
    play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN, [4], 4) = 0\n"
         "+0 listen(3, 4) = 0\n"
         "+0 < S 0:0(0) win 32792 <mss 1460,sackOK,nop,nop,FO>\n"
         "+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,FO 3021b9d889017eeb,nop,nop>\n"
         "+.01 < . 1:1(0) ack 1 win 257\n+0 accept(3, ..., ...) = 4\n+0 close(4) = 0\n+0 > F. 1:1(0) ack 1\n"
         "+.01 < F. 1:1(0) ack 2 win 257\n+0 > . 2:2(0) ack 2\n",
         fast_server);
    play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN, [4], 4) = 0\n"
         "+0 listen(3, 4) = 0\n"
         "+0 < S 0:1000(1000) win 32792 <mss 1460,sackOK,FO 3021b9d889017eeb,nop,nop>\n"
         "+0 > S. 0:0(0) ack 1001 <mss 1460,nop,nop,sackOK>\n"
         "+0 accept(3, ..., ...) = 4\n+0 %{ assert tcpi_state == 3 }%\n+0 read(4, ..., 2000) = 1000\n"
         "+0 write(4, ..., 500) = 500\n+0 > P. 1:501(500) ack 1001\n"
         "+.01 < . 1001:1001(0) ack 501 win 257\n+0 %{ assert tcpi_state == 1 }%\n+0 close(4) = 0\n+0 > F. 501:501(0) ack 1001\n",
         fast_server);
}

BOOST_AUTO_TEST_CASE(fast_open_a_client_asks_for_a_cookie_and_uses_it) {
    play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
         "+0 sendto(3, ..., 1000, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS\n"
         "+0 > S 0:0(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7,FO,nop,nop>\n"
         "+.01 < S. 0:0(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK,nop,wscale 6,FO abcd1234,nop,nop>\n"
         "+0 > . 1:1(0) ack 1\n+0 close(3) = 0\n+0 > F. 1:1(0) ack 1\n+.01 < F. 1:1(0) ack 2 win 92\n+0 > . 2:2(0) ack 2\n"
         "+.1 socket(..., SOCK_STREAM, IPPROTO_TCP) = 4\n+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
         "+0 sendto(4, ..., 1500, MSG_FASTOPEN, ..., ...) = 1000\n"
         "+0 > S 0:1000(1000) <mss 1460,sackOK,TS val 200 ecr 0,nop,wscale 7,FO abcd1234,nop,nop>\n"
         "+.01 < S. 0:0(0) ack 1001 win 5840 <mss 1040,nop,nop,sackOK,nop,wscale 6>\n+0 > . 1001:1001(0) ack 1\n"
         "+0 write(4, ..., 500) = 500\n+0 > P. 1001:1501(500) ack 1\n",
         "linux settings=none");
}

BOOST_AUTO_TEST_CASE(the_exported_getsockopt_knows_our_sockets_and_leaves_others_to_libc) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    using function = int (*)(int, int, int, void*, socklen_t*);
    const auto exported = reinterpret_cast<function>(library_symbol("getsockopt"));
    BOOST_REQUIRE(exported != nullptr);
    int type = 0;
    socklen_t size = sizeof type;
    const int ours = i.socket(i.userdata, AF_INET, SOCK_STREAM, 0);
    BOOST_TEST(exported(ours, SOL_SOCKET, SO_TYPE, &type, &size) == 0);
    BOOST_TEST(type == SOCK_STREAM);
    const int kernels = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    BOOST_TEST(exported(kernels, SOL_SOCKET, SO_TYPE, &type, &size) == 0);
    BOOST_TEST(type == SOCK_DGRAM);
    ::close(kernels);
    BOOST_TEST(i.close(i.userdata, ours) == 0);
    BOOST_TEST(exported(ours, SOL_SOCKET, SO_TYPE, &type, &size) == -1);
}

BOOST_AUTO_TEST_CASE(only_usleep_moves_the_clock_and_who_spins_on_it_is_let_go) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    const auto now = [&] {
        timeval t{};
        i.gettimeofday(i.userdata, &t, nullptr);
        return t.tv_sec * 1'000'000 + t.tv_usec;
    };
    const auto start = now();
    BOOST_TEST(now() == start);
    i.usleep(i.userdata, 30'000'000);
    BOOST_TEST(now() == start + 30'000'000);
    unsigned looks = 0;
    while (now() < start + 30'000'002 && ++looks < 10'000) {}
    BOOST_TEST(looks < 10'000u);
}

BOOST_AUTO_TEST_CASE(calls_on_what_is_no_socket_of_ours_fail_with_the_errno_of_posix) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    BOOST_TEST(i.socket(i.userdata, AF_INET, SOCK_DGRAM, 0) == -1);
    BOOST_TEST(errno == ESOCKTNOSUPPORT);
    BOOST_TEST(i.listen(i.userdata, 9999, 1) == -1);
    BOOST_TEST(errno == EBADF);
    const int fd = i.socket(i.userdata, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
    BOOST_TEST(i.accept(i.userdata, fd, nullptr, nullptr) == -1);
    BOOST_TEST(errno == EINVAL);
    char byte = 0;
    BOOST_TEST(i.read(i.userdata, fd, &byte, 1) == -1);
    BOOST_TEST(errno == ENOTCONN);
    BOOST_TEST(i.write(i.userdata, fd, &byte, 1) == -1);
    BOOST_TEST(errno == EPIPE);
    int on = 1;
    BOOST_TEST(i.setsockopt(i.userdata, fd, IPPROTO_TCP, TCP_NODELAY, &on, 1) == -1);
    BOOST_TEST(errno == EINVAL);
    BOOST_TEST(i.setsockopt(i.userdata, fd, IPPROTO_TCP, 12'345, &on, sizeof on) == -1);
    BOOST_TEST(errno == ENOPROTOOPT);
    const std::byte rubbish[3]{};
    BOOST_TEST(i.netdev_send(i.userdata, rubbish, sizeof rubbish) == -1);
    BOOST_TEST(i.close(i.userdata, fd) == 0);
    BOOST_TEST(i.close(i.userdata, fd) == -1);
}

BOOST_AUTO_TEST_CASE(bytes_go_from_a_pipe_into_a_socket_and_back) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
           "+0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n"
           "+0 < . 1:1(0) ack 1 win 32792\n+0 accept(3, ..., ...) = 4\n+0 < P. 1:101(100) ack 1 win 32792\n+0 > . 1:1(0) ack 101\n");
    int ends[2];
    BOOST_REQUIRE(i.pipe(i.userdata, ends) == 0);
    BOOST_TEST(i.splice(i.userdata, p.connection_fd(), nullptr, ends[1], nullptr, 1000, 0) == 100);
    BOOST_TEST(i.splice(i.userdata, ends[0], nullptr, p.connection_fd(), nullptr, 60, 0) == 60);
    char bytes[100];
    BOOST_TEST(i.read(i.userdata, ends[0], bytes, sizeof bytes) == 40);
    for (const int end : ends) i.close(i.userdata, end);
}

BOOST_AUTO_TEST_SUITE_END()
