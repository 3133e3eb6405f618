// libcorewire_packetdrill.so, driven as packetdrill drives it: every script below scripts/ is played on its virtual clock.
// ctest: timeout=120
#include "player.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

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
    BOOST_REQUIRE_MESSAGE(file.is_open(), name << " does not open");
    std::ostringstream text;
    text << file.rdbuf();
    BOOST_REQUIRE_MESSAGE(!file.bad(), name << " is not read to its end");
    return text.str();
}

void play(const std::string& text, const char* flags = "linux settings=none", family_mode mode = family_mode::ipv4) {
    player p(flags, mode);
    try {
        p.play(text);
    } catch (const std::exception& e) {
        BOOST_ERROR(e.what());
    }
}

/// One that has no step passes whatever the stack does. What does not parse fails when it is played.
bool says_something(const std::string& text) {
    try {
        return !parse_script(text).empty();
    } catch (const std::exception&) {
        return true;
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(packetdrill)

/// TFO_COOKIE is what Linux makes of a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4 and the addresses of the family.
std::string with_cookie(std::string text, family_mode mode) {
    constexpr std::string_view name = "TFO_COOKIE";
    for (std::size_t at = 0; (at = text.find(name, at)) != text.npos;)
        text.replace(at, name.size(), mode == family_mode::ipv6 ? "c1d1e9742a47a9bc" : "3021b9d889017eeb");
    return text;
}

/// In each of packetdrill's three modes.
void play_every_script(family_mode mode, const char* mode_name) {
    unsigned played = 0;
    for (const std::string& name : scripts()) {
        const std::string text = with_cookie(text_of(name), mode);
        try {
            if (!is_for_mode(text, mode_name)) continue;
        } catch (const std::exception& e) {
            BOOST_ERROR(name << ": " << e.what());
            continue;
        }
        const std::string flags = "segments=single " + flags_of_script(text, "linux settings=none");
        BOOST_TEST_CONTEXT(name) {
            BOOST_TEST(says_something(text), "it has no step");
            play(text, flags.c_str(), mode);
        }
        ++played;
    }
    BOOST_TEST_MESSAGE(played << " scripts, " << mode_name);
    BOOST_TEST(played >= 350u); // of some 370: what gets lost on the way is missed
}

BOOST_AUTO_TEST_CASE(a_script_for_a_mode_that_there_is_not_is_refused) {
    BOOST_TEST(is_for_mode("0 close(3) = 0\n", "mapped"));
    BOOST_TEST(is_for_mode("// only: ipv4 mapped\n", "mapped"));
    BOOST_TEST(!is_for_mode("// only: ipv4 mapped\n", "ipv6"));
    for (const char* text : {"// only: ip4", "// only: ipv4, mapped", "// only: Mapped", "// only:\n", "// only: ipv4\n// only: ipv6\n"})
        BOOST_CHECK_THROW(is_for_mode(text, "ipv4"), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(a_script_of_comments_says_nothing) {
    BOOST_TEST(!says_something(""));
    BOOST_TEST(!says_something("// flags: linux\n\n// only: ipv4\n"));
    BOOST_TEST(says_something("// a socket\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"));
}

BOOST_AUTO_TEST_CASE(every_script_of_the_folder_plays_as_written) { play_every_script(family_mode::ipv4, "ipv4"); }
BOOST_AUTO_TEST_CASE(every_script_plays_over_ipv6) { play_every_script(family_mode::ipv6, "ipv6"); }
BOOST_AUTO_TEST_CASE(every_script_plays_with_ipv6_sockets_over_ipv4) { play_every_script(family_mode::mapped, "mapped"); }

BOOST_AUTO_TEST_CASE(a_script_that_expects_what_never_leaves_fails_and_does_not_hang) {
    player p("linux");
    BOOST_CHECK_THROW(p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 > . 1:1(0) ack 1\n"), script_failed);
}

BOOST_AUTO_TEST_CASE(each_personality_has_its_own_order_of_options) {
    const std::string script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
                               "+0 < S 0:0(0) win 32792 <mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>\n";
    play(script + "+0 > S. 0:0(0) ack 1 win 65160 <mss 1460,sackOK,TS val 1 ecr 7,nop,wscale 7>\n", "linux settings=none");
    play(script + "+0 > S. 0:0(0) ack 1 win 65535 <mss 1460,nop,wscale 6,sackOK,TS val 1 ecr 7>\n", "freebsd settings=none");
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

BOOST_AUTO_TEST_CASE(fast_open_in_the_older_form_is_answered_in_it) {
    const std::string begin = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n"
                              "+0 setsockopt(3, SOL_TCP, TCP_FASTOPEN, [4], 4) = 0\n+0 listen(3, 4) = 0\n";
    play(begin + "+0 < S 0:0(0) win 32792 <mss 1460,sackOK,FOEXP>\n"
                 "+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,FOEXP 3021b9d889017eeb>\n",
         fast_server);
    play(begin + "+0 < S 0:1000(1000) win 32792 <mss 1460,sackOK,FOEXP 3021b9d889017eeb>\n"
                 "+0 > S. 0:0(0) ack 1001 <mss 1460,nop,nop,sackOK>\n+0 accept(3, ..., ...) = 4\n+0 read(4, ..., 2000) = 1000\n",
         fast_server);
}

BOOST_AUTO_TEST_CASE(fast_open_a_client_that_asks_in_vain_tries_the_older_form) {
    const auto dials = [](int fd, const char* option, const char* answer) {
        const std::string n = std::to_string(fd), stamp = std::to_string(100 * (fd - 2));
        return "+.1 socket(..., SOCK_STREAM, IPPROTO_TCP) = " + n + "\n+0 fcntl(" + n + ", F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
               "+0 sendto(" + n + ", ..., 1000, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS\n"
               "+0 > S 0:0(0) <mss 1460,sackOK,TS val " + stamp + " ecr 0,nop,wscale 7," + option + ">\n"
               "+.01 < S. 0:0(0) ack 1 win 5840 <mss 1040,nop,nop,sackOK,nop,wscale 6" + answer + ">\n+0 > . 1:1(0) ack 1\n"
               "+0 close(" + n + ") = 0\n+0 > F. 1:1(0) ack 1\n+.01 < F. 1:1(0) ack 2 win 92\n+0 > . 2:2(0) ack 2\n";
    };
    play(dials(3, "FO,nop,nop", "") + dials(4, "FOEXP", ",FOEXP abcd1234") +
             "+.1 socket(..., SOCK_STREAM, IPPROTO_TCP) = 5\n+0 fcntl(5, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
             "+0 sendto(5, ..., 1000, MSG_FASTOPEN, ..., ...) = 1000\n"
             "+0 > S 0:1000(1000) <mss 1460,sackOK,TS val 300 ecr 0,nop,wscale 7,FOEXP abcd1234>\n",
         "linux settings=none");
    play(dials(3, "FO,nop,nop", "") + dials(4, "FOEXP", "") + dials(5, "FO,nop,nop", ""), "linux settings=none");
    play(dials(3, "FO,nop,nop", "") + dials(4, "FO,nop,nop", ""), "default settings=none");
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

BOOST_AUTO_TEST_CASE(a_socket_tells_of_the_fast_open_key_that_it_was_given_alone) {
    player p("linux settings=none fast_open=3 fast_open_key=a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4");
    packetdrill_interface& i = p.table();
    const int fd = i.socket(i.userdata, AF_INET, SOCK_STREAM, IPPROTO_TCP);
    char key[32] = "a key of 16 byte";
    socklen_t size = sizeof key;
    BOOST_TEST(i.getsockopt(i.userdata, fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, key, &size) == 0);
    BOOST_TEST(size == 0u);
    BOOST_TEST(i.setsockopt(i.userdata, fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, key, 16) == 0);
    char told[32] = {};
    size = sizeof told;
    BOOST_TEST(i.getsockopt(i.userdata, fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, told, &size) == 0);
    BOOST_TEST(std::string(told, size) == "a key of 16 byte");
    BOOST_TEST(i.setsockopt(i.userdata, fd, IPPROTO_TCP, TCP_ULP, "tls", 3) == -1);
    BOOST_TEST(errno == ENOENT);
    BOOST_TEST(i.close(i.userdata, fd) == 0);
}

namespace {

sockaddr_in6 at6(const char* address, std::uint16_t port) {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(port);
    ::inet_pton(AF_INET6, address, &name.sin6_addr);
    return name;
}

/// What bind() or connect() says: 0, or errno.
int by_name(int (*call)(void*, int, const sockaddr*, socklen_t), void* u, int fd, const sockaddr_in6& name) {
    return call(u, fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
}

/// A segment from `c` to the stack.
void arrives(packetdrill_interface& i, const connection_text& c, const packet_step& p) {
    const std::vector<std::byte> bytes = build(p, c);
    BOOST_TEST(i.netdev_send(i.userdata, bytes.data(), bytes.size()) == 0);
}

/// What leaves next; flags are empty if nothing ever does.
live_packet leaves(packetdrill_interface& i) {
    std::array<std::byte, 2000> room;
    std::size_t size = room.size();
    long long when = 0;
    if (i.netdev_receive(i.userdata, room.data(), &size, &when) != 0) return {};
    try {
        return parse_packet({room.data(), size});
    } catch (const std::exception&) { // nothing leaves any more: something malformed, so that scripts end
        return {};
    }
}

/// A socket that listens at port 8080.
int listens(packetdrill_interface& i, int backlog) {
    const int fd = i.socket(i.userdata, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in name{.sin_family = AF_INET, .sin_port = htons(8080), .sin_addr = {}, .sin_zero = {}};
    BOOST_TEST(i.bind(i.userdata, fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    BOOST_TEST(i.listen(i.userdata, fd, backlog) == 0);
    return fd;
}

/// The flags that a SYN from there to our port 8080 is answered with.
std::string answer_to_syn(packetdrill_interface& i, const char* local, const char* remote) {
    const auto address = [](const char* text) -> corewire::net_address {
        if (const auto v4 = corewire::ipv4::parse(text)) return *v4;
        return *corewire::ipv6::parse(text);
    };
    const connection_text c{.local = address(local), .remote = address(remote)};
    const std::vector<std::byte> syn = build(packet_step{.inbound = true, .flags = "S"}, c);
    BOOST_TEST(i.netdev_send(i.userdata, syn.data(), syn.size()) == 0);
    std::array<std::byte, 2000> room;
    std::size_t size = room.size();
    long long when = 0;
    BOOST_TEST(i.netdev_receive(i.userdata, room.data(), &size, &when) == 0);
    return parse_packet({room.data(), size}).flags;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_socket_at_any_ipv6_address_takes_both_families_unless_it_is_told_not_to) {
    for (const bool ipv6_only : {false, true}) {
        player p("linux settings=none");
        packetdrill_interface& i = p.table();
        const int fd = i.socket(i.userdata, AF_INET6, SOCK_STREAM, 0);
        int on = ipv6_only;
        BOOST_TEST(i.setsockopt(i.userdata, fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
        socklen_t size = sizeof on;
        BOOST_TEST(i.getsockopt(i.userdata, fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, &size) == 0);
        BOOST_TEST(on == int{ipv6_only});
        BOOST_TEST(by_name(i.bind, i.userdata, fd, at6("::", 8080)) == 0);
        BOOST_TEST(i.setsockopt(i.userdata, fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == -1); // too late
        BOOST_TEST(errno == EINVAL);
        BOOST_TEST(i.listen(i.userdata, fd, 1) == 0);
        BOOST_TEST(answer_to_syn(i, "fd3d:0a0b:17d6::1", "fd3d:fa7b:d17d::1") == "S.");
        BOOST_TEST(answer_to_syn(i, "192.168.0.1", "192.0.2.1") == (ipv6_only ? "R." : "S."));
        i.close(i.userdata, fd);
    }
}

BOOST_AUTO_TEST_CASE(names_of_the_wrong_family_and_addresses_of_others_are_refused) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    const int six = i.socket(i.userdata, AF_INET6, SOCK_STREAM, 0), four = i.socket(i.userdata, AF_INET, SOCK_STREAM, 0);
    int on = 1;
    BOOST_TEST(by_name(i.bind, i.userdata, four, at6("::1", 80)) == EAFNOSUPPORT);
    BOOST_TEST(i.setsockopt(i.userdata, four, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == -1);
    BOOST_TEST(errno == ENOPROTOOPT);
    const sockaddr_in v4{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    BOOST_TEST(i.bind(i.userdata, six, reinterpret_cast<const sockaddr*>(&v4), sizeof v4) == -1);
    BOOST_TEST(errno == EAFNOSUPPORT);
    const sockaddr_in6 whole = at6("fd3d::1", 80);
    BOOST_TEST(i.bind(i.userdata, six, reinterpret_cast<const sockaddr*>(&whole), sizeof whole - 8) == -1);
    BOOST_TEST(errno == EINVAL);
    BOOST_TEST(by_name(i.bind, i.userdata, six, at6("ff02::1", 80)) == EADDRNOTAVAIL);
    BOOST_TEST(by_name(i.bind, i.userdata, six, at6("::ffff:10.0.0.1", 80)) == EADDRNOTAVAIL);
    BOOST_TEST(i.setsockopt(i.userdata, six, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
    BOOST_TEST(by_name(i.bind, i.userdata, six, at6("::ffff:192.168.0.1", 80)) == EINVAL);
    BOOST_TEST(by_name(i.connect, i.userdata, six, at6("::ffff:192.0.2.1", 80)) == ENETUNREACH);
    for (const int fd : {six, four}) i.close(i.userdata, fd);
}

BOOST_AUTO_TEST_CASE(what_is_written_and_not_acknowledged_is_memory) { // sk_get_meminfo()
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
           "+0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n+.1 < . 1:1(0) ack 1 win 32792\n"
           "+0 accept(3, ..., ...) = 4\n+0 write(4, ..., 3000) = 3000\n");
    std::array<std::uint32_t, 9> told{};
    socklen_t size = sizeof told;
    BOOST_TEST(i.getsockopt(i.userdata, p.connection_fd(), SOL_SOCKET, 55, told.data(), &size) == 0);
    BOOST_TEST(size == sizeof told);
    BOOST_TEST(told[5] == 3000 + 2 * 832); // SK_MEMINFO_WMEM_QUEUED: two packets
}

BOOST_AUTO_TEST_CASE(all_of_ipv6_alone_may_be_bound_beside_all_of_ipv4) { // ipv6_rcv_saddr_equal()
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    const int four = i.socket(i.userdata, AF_INET, SOCK_STREAM, 0), six = i.socket(i.userdata, AF_INET6, SOCK_STREAM, 0);
    const sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(80), .sin_addr = {}, .sin_zero = {}};
    int on = 1;
    BOOST_TEST(i.bind(i.userdata, four, reinterpret_cast<const sockaddr*>(&v4), sizeof v4) == 0);
    BOOST_TEST(by_name(i.bind, i.userdata, six, at6("::", 80)) == EADDRINUSE);
    BOOST_TEST(i.setsockopt(i.userdata, six, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
    BOOST_TEST(by_name(i.bind, i.userdata, six, at6("::", 80)) == 0);
    for (const int fd : {six, four}) BOOST_TEST(i.listen(i.userdata, fd, 1) == 0);
    for (const int fd : {six, four}) i.close(i.userdata, fd);
}

BOOST_AUTO_TEST_CASE(any_ipv6_address_that_a_script_binds_to_is_ours) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    const int fd = i.socket(i.userdata, AF_INET6, SOCK_STREAM, 0);
    BOOST_TEST(by_name(i.bind, i.userdata, fd, at6("2001:db8::7", 8080)) == 0);
    BOOST_TEST(i.listen(i.userdata, fd, 1) == 0);
    BOOST_TEST(answer_to_syn(i, "2001:db8::7", "fd3d:fa7b:d17d::1") == "S.");
    BOOST_TEST(answer_to_syn(i, "fd3d:0a0b:17d6::1", "fd3d:fa7b:d17d::1") == "R.");
    i.close(i.userdata, fd);
}

BOOST_AUTO_TEST_CASE(the_mtu_is_20_bytes_more_over_ipv6_unless_it_is_named) {
    const std::string syn = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
                            "+0 < S 0:0(0) win 32792 <mss 1000>\n";
    play(syn + "+0 > S. 0:0(0) ack 1 <mss 1460>\n", "linux settings=none", family_mode::ipv6);
    play(syn + "+0 > S. 0:0(0) ack 1 <mss 1440>\n", "linux settings=none mtu=1500", family_mode::ipv6);
    play(syn + "+0 > S. 0:0(0) ack 1 <mss 1460>\n", "linux settings=none mtu=1520", family_mode::ipv6);
    play(syn + "+0 > S. 0:0(0) ack 1 <mss 1480>\n", "linux settings=none mtu=1520");
}

BOOST_AUTO_TEST_CASE(freebsd_refuses_what_completes_its_handshake_and_finds_no_room) {
    player p("freebsd");
    packetdrill_interface& i = p.table();
    const int fd = listens(i, 2); // half as many again, and one
    for (std::uint16_t n = 1; n <= 5; ++n) {
        connection_text c{.remote_port = n};
        arrives(i, c, {.inbound = true, .flags = "S", .window = 1000});
        const live_packet answer = leaves(i);
        BOOST_TEST(answer.flags == "S.");
        c.local_isn = answer.sequence;
        arrives(i, c, {.inbound = true, .flags = ".", .first = 1, .end = 1, .ack = 1, .window = 1000});
        if (n == 5) BOOST_TEST(leaves(i).flags == "R");
    }
    for (int n = 1; n <= 5; ++n) BOOST_TEST((i.accept(i.userdata, fd, nullptr, nullptr) >= 0) == (n <= 4));
    i.close(i.userdata, fd);
}

BOOST_AUTO_TEST_CASE(a_full_listener_answers_with_cookies_unless_the_setting_is_0) {
    for (const bool allowed : {false, true}) {
        player p(allowed ? "linux settings=none" : "linux settings=none syn_cookies=0");
        packetdrill_interface& i = p.table();
        const int fd = listens(i, 1);
        std::size_t answers = 0;
        for (std::uint16_t n = 1; n <= 3; ++n) {
            arrives(i, {.remote_port = n}, {.inbound = true, .flags = "S", .window = 1000});
            if (const live_packet answer = leaves(i); answer.destination_port == n) ++answers; // else an older one's, once more, or nothing
        }
        BOOST_TEST(answers == (allowed ? 3u : 2u));
        i.close(i.userdata, fd);
    }
}

BOOST_AUTO_TEST_CASE(bytes_go_from_a_pipe_into_a_socket_and_back) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
           "+0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n"
           "+0 < . 1:1(0) ack 1 win 32792\n+0 accept(3, ..., ...) = 4\n+0 < P. 1:101(100) ack 1 win 32792\n+0 > . 1:1(0) ack 101\n");
    int ends[2];
    BOOST_REQUIRE(i.pipe(i.userdata, ends) == 0);
    const auto refused = [&](int from, int to, unsigned flags, int why) {
        return i.splice(i.userdata, from, nullptr, to, nullptr, 1000, flags) == -1 && errno == why;
    };
    BOOST_TEST(refused(p.connection_fd(), ends[0], 0, EBADF)); // the other end
    BOOST_TEST(refused(ends[1], p.connection_fd(), 0, EBADF));
    BOOST_TEST(refused(p.connection_fd(), ends[1], 64, EINVAL)); // a flag that there is not
    BOOST_TEST(i.splice(i.userdata, p.connection_fd(), nullptr, ends[1], nullptr, 1000, 0) == 100);
    BOOST_TEST(i.splice(i.userdata, ends[0], nullptr, p.connection_fd(), nullptr, 60, 0) == 60);
    char bytes[100];
    BOOST_TEST(i.read(i.userdata, ends[0], bytes, sizeof bytes) == 40);
    for (const int end : ends) i.close(i.userdata, end);
}

namespace {

/// A connection whose peer has told of a window, and its socket does not block and keeps 10,000 bytes or so.
void play_small_buffer(player& p) {
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
           "+0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n"
           "+0 < . 1:1(0) ack 1 win 32792\n+0 accept(3, ..., ...) = 4\n+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
           "+0 setsockopt(4, SOL_SOCKET, SO_SNDBUF, [5000], 4) = 0\n");
}

int waiting_in(int fd) {
    int n = -1;
    return ::ioctl(fd, FIONREAD, &n) == 0 ? n : -1;
}

} // namespace

BOOST_AUTO_TEST_CASE(what_a_socket_does_not_take_stays_in_the_pipe) {
    player p("linux settings=none");
    packetdrill_interface& i = p.table();
    play_small_buffer(p);
    int ends[2];
    BOOST_REQUIRE(i.pipe(i.userdata, ends) == 0);
    const std::vector<char> bytes(60'000);
    BOOST_REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    const ssize_t taken = i.splice(i.userdata, ends[0], nullptr, p.connection_fd(), nullptr, bytes.size(), 0);
    BOOST_TEST(taken > 0);
    BOOST_TEST(taken < 60'000);
    BOOST_TEST(waiting_in(ends[0]) == 60'000 - taken);
    BOOST_TEST(i.splice(i.userdata, ends[0], nullptr, p.connection_fd(), nullptr, bytes.size(), 0) == -1);
    BOOST_TEST(errno == EAGAIN);
    BOOST_TEST(waiting_in(ends[0]) == 60'000 - taken);
    int queued = 0;
    BOOST_TEST(i.ioctl(i.userdata, p.connection_fd(), SIOCOUTQ, &queued) == 0);
    BOOST_TEST(queued == taken);
    for (const int end : ends) i.close(i.userdata, end);
}

BOOST_AUTO_TEST_CASE(the_exported_sendfile_sends_files_and_leaves_other_sockets_to_libc) {
    player p("linux settings=none");
    using function = ssize_t (*)(int, int, off_t*, std::size_t);
    const auto exported = reinterpret_cast<function>(library_symbol("sendfile"));
    BOOST_REQUIRE(exported != nullptr);
    BOOST_TEST(library_symbol("sendfile64") != nullptr);
    play_small_buffer(p);
    const int file = ::memfd_create("bytes", MFD_CLOEXEC), fd = p.connection_fd();
    const std::vector<char> bytes(100'000);
    BOOST_REQUIRE(::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    off_t at = 99'992;
    BOOST_TEST(exported(fd, file, &at, 100) == 8); // up to its end
    BOOST_TEST(at == 100'000);
    p.play("+0 > P. 1:9(8) ack 1\n+0 < . 1:1(0) ack 9 win 32792\n");
    BOOST_TEST(exported(fd, file, &at, 100) == 0);
    BOOST_TEST(exported(fd, file, nullptr, 100) == 0); // where writing has left it
    BOOST_TEST(::lseek(file, 10, SEEK_SET) == 10);
    BOOST_TEST(exported(fd, file, nullptr, 5) == 5);
    BOOST_TEST(::lseek(file, 0, SEEK_CUR) == 15);
    at = 0;
    const ssize_t taken = exported(fd, file, &at, bytes.size()); // as much as there is room for
    BOOST_TEST(taken > 0);
    BOOST_TEST(taken < 100'000);
    BOOST_TEST(at == taken);
    BOOST_TEST(exported(fd, file, &at, bytes.size()) == -1);
    BOOST_TEST(errno == EAGAIN);
    BOOST_TEST(at == taken);
    BOOST_TEST(exported(fd, 9999, &at, 1) == -1);
    BOOST_TEST(errno == EBADF);
    int others[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, others) == 0);
    at = 0;
    BOOST_TEST(exported(others[0], file, &at, 100) == 100);
    BOOST_TEST(waiting_in(others[1]) == 100);
    for (const int end : {others[0], others[1], file}) ::close(end);
}

BOOST_AUTO_TEST_SUITE_END()
