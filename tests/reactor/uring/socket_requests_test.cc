// What sockets ask of a reactor's io_uring, by the kernel's own and by epoll in its place: both must answer alike.
#include "ring_world.hh"

#include <tests/support/virtual_clock.hh>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/resource.h>

namespace corewire {

namespace {

constexpr std::uint16_t group = 7;

/// Memory that receives of the ring's choosing go into; `given` of them at the start.
class provided {
public:
    static constexpr unsigned places = 64;
    provided(uring& ring, std::size_t size, unsigned given)
        : ring_(ring), size_(size), memory_(places * size, '.'),
          slots_(static_cast<io_uring_buf_ring*>(std::aligned_alloc(4096, 4096))) {
        io_uring_buf_ring_init(slots_.get());
        BOOST_REQUIRE(ring.register_buffers(group, *slots_, places) == 0);
        for (unsigned id = 0; id < given; ++id) give(id);
    }
    ~provided() { ring_.unregister_buffers(group); }

    void give(unsigned id) {
        io_uring_buf_ring_add(slots_.get(), &memory_[id * size_], static_cast<unsigned>(size_), static_cast<std::uint16_t>(id),
                              io_uring_buf_ring_mask(places), 0);
        io_uring_buf_ring_advance(slots_.get(), 1);
    }
    /// What a completion has brought.
    std::string_view text(const std::pair<int, unsigned>& completion) const {
        BOOST_REQUIRE((completion.second & IORING_CQE_F_BUFFER) != 0u);
        return std::string_view(memory_).substr((completion.second >> IORING_CQE_BUFFER_SHIFT) * size_,
                                                static_cast<std::size_t>(completion.first));
    }
    std::string_view all() const { return memory_; }
    std::byte* of(unsigned flags) { return reinterpret_cast<std::byte*>(&memory_[(flags >> IORING_CQE_BUFFER_SHIFT) * size_]); }

private:
    struct free_it {
        void operator()(io_uring_buf_ring* p) const { std::free(p); }
    };
    uring& ring_;
    std::size_t size_;
    std::string memory_;
    std::unique_ptr<io_uring_buf_ring, free_it> slots_;
};

void receive(uring& ring, probe& op, const unique_fd& from) {
    ring.start(op, [&](io_uring_sqe& entry) {
        io_uring_prep_recv_multishot(&entry, from.get(), nullptr, 0, 0);
        entry.flags |= IOSQE_BUFFER_SELECT;
        entry.buf_group = group;
    });
}

void receive_messages(uring& ring, probe& op, const unique_fd& from, msghdr& layout) {
    ring.start(op, [&](io_uring_sqe& entry) {
        io_uring_prep_recvmsg_multishot(&entry, from.get(), &layout, 0);
        entry.flags |= IOSQE_BUFFER_SELECT;
        entry.buf_group = group;
    });
}

void accept(uring& ring, probe& op, const unique_fd& at) {
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_multishot_accept(&entry, at.get(), nullptr, nullptr, SOCK_CLOEXEC); });
}

void connect(uring& ring, probe& op, const unique_fd& fd, const sockaddr_in& to) {
    ring.start(op, [&](io_uring_sqe& entry) {
        io_uring_prep_connect(&entry, fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    });
}

void send(uring& ring, probe& op, const unique_fd& to, std::string_view text, int flags = 0) {
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_send(&entry, to.get(), text.data(), text.size(), flags); });
}

void poll(uring& ring, probe& op, const unique_fd& fd, unsigned events) {
    ring.start(op, [&](io_uring_sqe& entry) { io_uring_prep_poll_add(&entry, fd.get(), events); });
}

unique_fd tcp_socket() { return unique_fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}; }

/// A listener on loopback.
struct listening {
    explicit listening(int backlog = 64) : fd(tcp_socket()) {
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        BOOST_REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0);
        BOOST_REQUIRE(::listen(fd.get(), backlog) == 0);
        BOOST_REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    }
    unique_fd dial() const {
        unique_fd made = tcp_socket();
        BOOST_REQUIRE(::connect(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
        return made;
    }
    unique_fd fd;
    sockaddr_in at{};
};

/// Both ends of a connection.
struct tcp_ends {
    tcp_ends() {
        const listening listener;
        theirs = listener.dial();
        ours = unique_fd{::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    }
    unique_fd ours, theirs;
};

/// Until its peer and the kernel take no more. Over TCP room appears when what was sent has arrived, and poll(2) tells only of much of it.
void fill(const unique_fd& fd) {
    const std::string much(65536, 'f');
    const auto send_all = [&] {
        while (::send(fd.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {}
    };
    pollfd room{fd.get(), POLLOUT, 0};
    do send_all();
    while (::poll(&room, 1, 100) > 0);
    send_all();
}

/// All that waits there.
std::size_t drain(const unique_fd& fd) {
    std::string into(65536, '\0');
    std::size_t all = 0;
    for (ssize_t n; (n = ::recv(fd.get(), into.data(), into.size(), MSG_DONTWAIT)) > 0;) all += static_cast<std::size_t>(n);
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(socket_requests)

// ---- receiving -------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(a_receive_goes_on_and_names_its_buffers, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    provided buffers(w.ring, 16, 8);
    probe op;
    receive(w.ring, op, pair.ours);
    w.some_turns();
    BOOST_TEST(op.completions == 0);
    for (int round = 1; round <= 5; ++round) {
        const std::string said = "round " + std::to_string(round);
        pair.say(said);
        w.turn_until([&] { return op.completions == round; });
        BOOST_TEST(op.goes_on());
        BOOST_TEST(buffers.text(op.all.back()) == said);
    }
    w.ring.cancel(op);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ECANCELED);
    BOOST_TEST(op.completions == 6);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_a_buffer_cannot_hold_comes_in_pieces, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    provided buffers(w.ring, 16, 64);
    std::string said;
    for (int i = 0; i < 50; ++i) said += "sixteen bytes " + std::to_string(10 + i);
    said += "end";
    pair.say(said);
    probe op;
    receive(w.ring, op, pair.ours);
    w.turn_until([&] { return op.completions == 51; });
    std::string heard;
    for (const auto& each : op.all) heard += buffers.text(each);
    BOOST_TEST(heard == said);
    BOOST_TEST(op.in_kernel());
    w.ring.cancel(op);
    w.ring.wait(op);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_receive_that_finds_no_buffer_ends_and_loses_nothing, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    provided buffers(w.ring, 4, 2);
    pair.say("onetwo...four");
    probe op;
    receive(w.ring, op, pair.ours);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_REQUIRE(op.completions == 3);
    BOOST_TEST(buffers.text(op.all[0]) == "onet");
    BOOST_TEST(buffers.text(op.all[1]) == "wo..");
    BOOST_TEST(op.result == -ENOBUFS);
    BOOST_TEST(!op.goes_on());
    BOOST_TEST((op.flags & IORING_CQE_F_BUFFER) == 0u);

    receive(w.ring, op, pair.ours); // still none
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ENOBUFS);

    buffers.give(5);
    buffers.give(6);
    receive(w.ring, op, pair.ours);
    w.turn_until([&] { return op.completions >= 6; });
    BOOST_TEST(buffers.text(op.all[4]) == ".fou");
    BOOST_TEST(op.all[4].second >> IORING_CQE_BUFFER_SHIFT == 5u);
    BOOST_TEST(buffers.text(op.all[5]) == "r");
    w.ring.cancel(op);
    w.ring.wait(op);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(end_of_stream_ends_a_receive, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    provided buffers(w.ring, 16, 4);
    probe op;
    receive(w.ring, op, pair.ours);
    pair.say("last words");
    pair.theirs.reset();
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_REQUIRE(op.completions == 2);
    BOOST_TEST(buffers.text(op.all[0]) == "last words");
    BOOST_TEST(op.result == 0);
    BOOST_TEST(!op.goes_on());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_peers_reset_ends_a_receive, Backend, both_backends) {
    ring_world w(Backend::options());
    tcp_ends ends;
    provided buffers(w.ring, 16, 4);
    probe op;
    receive(w.ring, op, ends.ours);
    w.some_turns();
    const linger none{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(ends.theirs.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    ends.theirs.reset();
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ECONNRESET);
    BOOST_TEST(op.completions == 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_cancelled_receive_touches_nothing_any_more, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair, other;
    provided buffers(w.ring, 16, 4);
    std::array<char, 16> into{};
    probe many, one;
    receive(w.ring, many, pair.ours);
    w.ring.start(one, [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, other.ours.get(), into.data(), into.size(), 0); });
    w.some_turns();
    for (probe* op : {&many, &one}) {
        w.ring.cancel(*op);
        w.ring.wait(*op);
        BOOST_TEST(op->result == -ECANCELED);
        BOOST_TEST(op->completions == 1);
    }
    pair.say("late");
    other.say("late");
    w.some_turns();
    BOOST_TEST(buffers.all().find_first_not_of('.') == std::string::npos);
    BOOST_TEST(into[0] == '\0');
    BOOST_TEST(drain(pair.ours) == 4u);
    BOOST_TEST(drain(other.ours) == 4u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(one_receive_takes_one_piece, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    std::array<char, 4> into{};
    probe op, impatient;
    const auto take = [&](probe& by, int flags) {
        w.ring.start(by, [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, pair.ours.get(), into.data(), into.size(), flags); });
    };
    take(impatient, MSG_DONTWAIT);
    w.turn_until([&] { return !impatient.in_kernel(); });
    BOOST_TEST(impatient.result == -EAGAIN);
    take(op, 0);
    pair.say("eight by");
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == 4);
    BOOST_TEST(std::string_view(into.data(), 4) == "eigh");
    BOOST_TEST(drain(pair.ours) == 4u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_receive_and_a_wait_for_room_share_a_descriptor, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    provided buffers(w.ring, 16, 8);
    fill(pair.ours);
    probe in, room;
    receive(w.ring, in, pair.ours);
    poll(w.ring, room, pair.ours, POLLOUT);
    w.some_turns();
    BOOST_TEST(room.in_kernel());
    pair.say("hello");
    w.turn_until([&] { return in.completions == 1; });
    BOOST_TEST(room.in_kernel());
    drain(pair.theirs);
    w.turn_until([&] { return !room.in_kernel(); });
    BOOST_TEST((room.result & POLLOUT) != 0);
    BOOST_TEST(in.in_kernel());
    pair.say("again");
    w.turn_until([&] { return in.completions == 2; });
    poll(w.ring, room, pair.ours, POLLIN | POLLPRI);
    w.ring.cancel(in);
    w.turn_until([&] { return !in.in_kernel(); });
    BOOST_TEST(in.result == -ECANCELED);
    w.some_turns();
    BOOST_TEST(room.in_kernel());
    pair.theirs.reset(); // what nobody waited for comes too
    w.turn_until([&] { return !room.in_kernel(); });
    BOOST_TEST((room.result & POLLHUP) != 0);
}

// ---- datagrams -------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(a_datagram_comes_with_its_sender, Backend, both_backends) {
    ring_world w(Backend::options());
    const unique_fd ours{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)}, theirs{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_in at{}, from{};
    at.sin_family = from.sin_family = AF_INET;
    at.sin_addr.s_addr = from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (const auto& [fd, address] : {std::pair{ours.get(), &at}, std::pair{theirs.get(), &from}}) {
        socklen_t size = sizeof *address;
        BOOST_REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(address), size) == 0);
        BOOST_REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(address), &size) == 0);
    }
    BOOST_REQUIRE(::connect(theirs.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    provided buffers(w.ring, 128, 8);
    msghdr layout{};
    layout.msg_namelen = sizeof(sockaddr_in6);
    probe op;
    receive_messages(w.ring, op, ours, layout);
    w.some_turns();
    const std::string large(200, 'L');
    for (const std::string_view each : {std::string_view{"first"}, std::string_view{large}, std::string_view{}})
        BOOST_REQUIRE(::send(theirs.get(), each.data(), each.size(), 0) == static_cast<ssize_t>(each.size()));
    w.turn_until([&] { return op.completions == 3; });
    constexpr std::size_t before = sizeof(io_uring_recvmsg_out) + sizeof(sockaddr_in6);
    const auto header_of = [&](const auto& completion) {
        auto* header = io_uring_recvmsg_validate(buffers.of(completion.second), completion.first, &layout);
        BOOST_REQUIRE(header != nullptr);
        BOOST_TEST(header->namelen == sizeof from);
        BOOST_TEST(std::memcmp(io_uring_recvmsg_name(header), &from, sizeof from) == 0);
        return header;
    };
    BOOST_TEST(header_of(op.all[0])->payloadlen == 5u);
    BOOST_TEST(buffers.text(op.all[0]).substr(before) == "first");
    BOOST_TEST((header_of(op.all[1])->flags & MSG_TRUNC) != 0u); // more than the buffer holds
    BOOST_TEST(buffers.text(op.all[1]).substr(before) == large.substr(0, 128 - before));
    BOOST_TEST((op.all[1].second & IORING_CQE_F_MORE) != 0u);
    BOOST_TEST(header_of(op.all[2])->payloadlen == 0u);
    BOOST_TEST(op.all[2].first == static_cast<int>(before));
    if (!op.in_kernel()) receive_messages(w.ring, op, ours, layout); // io_uring's request ends with an empty one

    for (int i = 0; i < 5; ++i) BOOST_REQUIRE(::send(theirs.get(), "x", 1, 0) == 1);
    BOOST_REQUIRE(::send(theirs.get(), "y", 1, 0) == 1); // the ninth finds no buffer
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.completions == 9);
    BOOST_TEST(op.result == -ENOBUFS);
    BOOST_TEST(drain(ours) == 1u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_buffer_without_room_for_the_head_is_refused, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair(SOCK_DGRAM);
    provided buffers(w.ring, 16, 4);
    msghdr layout{};
    layout.msg_namelen = sizeof(sockaddr_in6);
    probe op;
    receive_messages(w.ring, op, pair.ours, layout);
    pair.say("a");
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -EFAULT);
    BOOST_TEST(drain(pair.ours) == 1u);
}

// ---- connections -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(an_accept_goes_on_until_it_is_cancelled, Backend, both_backends) {
    ring_world w(Backend::options());
    const listening listener;
    probe op;
    accept(w.ring, op, listener.fd);
    std::vector<unique_fd> clients, accepted;
    for (int i = 1; i <= 40; ++i) clients.push_back(listener.dial());
    w.turn_until([&] { return op.completions == 40; });
    for (const auto& [result, flags] : op.all) {
        BOOST_TEST(result >= 0);
        BOOST_TEST((flags & IORING_CQE_F_MORE) != 0u);
        accepted.emplace_back(result);
        BOOST_TEST((::fcntl(result, F_GETFD) & FD_CLOEXEC) != 0);
        BOOST_TEST((::fcntl(result, F_GETFL) & O_NONBLOCK) == 0);
    }
    w.ring.cancel(op);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ECANCELED);
    clients.push_back(listener.dial());
    w.some_turns();
    BOOST_TEST(op.completions == 41);
    accepted.emplace_back(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
    BOOST_TEST(static_cast<bool>(accepted.back())); // it has stayed in the backlog
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_accept_says_that_no_descriptor_is_left, Backend, both_backends) {
    ring_world w(Backend::options());
    const listening listener;
    const unique_fd client = listener.dial();
    rlimit usual{};
    ::getrlimit(RLIMIT_NOFILE, &usual);
    const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none); // io_uring asks when it is given the request
    probe op;
    accept(w.ring, op, listener.fd);
    w.ring.wait(op);
    ::setrlimit(RLIMIT_NOFILE, &usual);
    BOOST_TEST(op.result == -EMFILE);
    BOOST_TEST(op.completions == 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_connect_ends_when_the_peer_has_answered, Backend, both_backends) {
    ring_world w(Backend::options());
    listening listener;
    const unique_fd first = tcp_socket(), second = tcp_socket();
    probe op;
    connect(w.ring, op, first, listener.at);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == 0);
    listener.fd.reset();
    connect(w.ring, op, second, listener.at);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ECONNREFUSED);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_connect_that_nobody_answers_is_cancelled, Backend, both_backends) {
    ring_world w(Backend::options());
    const listening full(0);
    std::array<unique_fd, 4> fillers; // beyond these the kernel drops what comes
    for (unique_fd& fd : fillers) {
        fd = unique_fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
        static_cast<void>(!::connect(fd.get(), reinterpret_cast<const sockaddr*>(&full.at), sizeof full.at));
    }
    const unique_fd fd = tcp_socket();
    probe op;
    connect(w.ring, op, fd, full.at);
    w.some_turns();
    BOOST_TEST(op.in_kernel());
    w.ring.cancel(op);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -ECANCELED);
    BOOST_TEST(op.completions == 1);
}

// ---- sending ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(a_send_takes_what_fits, Backend, both_backends) {
    ring_world w(Backend::options());
    tcp_ends ends;
    const std::string much(64 << 20, 'm');
    probe op;
    send(w.ring, op, ends.ours, much, MSG_DONTWAIT | MSG_NOSIGNAL);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result > 0);
    BOOST_TEST(op.result < static_cast<int>(much.size()));
    const auto first = static_cast<std::size_t>(op.result);
    fill(ends.ours);
    send(w.ring, op, ends.ours, "more", MSG_DONTWAIT | MSG_NOSIGNAL);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -EAGAIN);

    send(w.ring, op, ends.ours, "patient"); // waits for room
    w.some_turns();
    BOOST_TEST(op.in_kernel());
    std::size_t heard = 0;
    w.turn_until([&] { return heard += drain(ends.theirs), !op.in_kernel(); });
    BOOST_TEST(op.result == 7);
    BOOST_TEST(heard >= first);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_send_to_nobody_fails_without_a_signal, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    pair.theirs.reset();
    probe op;
    send(w.ring, op, pair.ours, "hello?");
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -EPIPE);
}

// ---- watching --------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(a_poll_tells_what_is_and_what_comes, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    probe op;
    poll(w.ring, op, pair.ours, POLLIN | POLLOUT);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == POLLOUT);
    for (int round = 0; round < 3; ++round) {
        poll(w.ring, op, pair.ours, POLLIN);
        w.some_turns();
        BOOST_TEST(op.in_kernel());
        pair.say("x");
        w.turn_until([&] { return !op.in_kernel(); });
        BOOST_TEST(op.result == POLLIN);
        BOOST_TEST(drain(pair.ours) == 1u);
    }
    const unique_fd nobodys{::dup(pair.ours.get())};
    ::close(nobodys.get());
    poll(w.ring, op, nobodys, POLLIN);
    w.turn_until([&] { return !op.in_kernel(); });
    BOOST_TEST(op.result == -EBADF);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(several_wait_for_one_descriptor_and_each_is_told, Backend, both_backends) {
    ring_world w(Backend::options());
    socket_pair pair;
    std::array<probe, 5> ops;
    for (probe& op : ops) poll(w.ring, op, pair.ours, POLLIN);
    w.some_turns();
    w.ring.cancel(ops[2]);
    w.turn_until([&] { return !ops[2].in_kernel(); });
    pair.say("x");
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const probe& op : ops) {
        BOOST_TEST(op.completions == 1);
        BOOST_TEST(op.result == (&op == &ops[2] ? -ECANCELED : POLLIN));
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_descriptors_number_may_be_used_again, Backend, both_backends) {
    ring_world w(Backend::options());
    for (int round = 0; round < 3; ++round) {
        socket_pair pair;
        probe op, cancelled;
        poll(w.ring, op, pair.ours, POLLIN);
        poll(w.ring, cancelled, pair.theirs, POLLIN);
        w.some_turns();
        pair.say("x");
        w.ring.cancel(cancelled);
        w.turn_until([&] { return w.ring.in_kernel() == 0; });
        BOOST_TEST(op.result == POLLIN);
        BOOST_TEST(cancelled.result == -ECANCELED);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(many_that_are_ready_at_once_are_all_told, Backend, both_backends) {
    ring_world w(Backend::options());
    std::vector<socket_pair> pairs(200);
    std::vector<probe> ops(pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) poll(w.ring, ops[i], pairs[i].ours, POLLIN);
    w.some_turns();
    for (socket_pair& each : pairs) each.say("x");
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    for (const probe& op : ops) {
        BOOST_REQUIRE_EQUAL(op.completions, 1);
        BOOST_REQUIRE_EQUAL(op.result, POLLIN);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_clock_that_stands_still_holds_nothing_up, Backend, both_backends) {
    virtual_clock clock;
    ring_world w(Backend::options(), &clock);
    socket_pair pair;
    probe op;
    for (int round = 0; round < 3; ++round) {
        poll(w.ring, op, pair.ours, POLLIN);
        w.some_turns();
        pair.say("x");
        w.turn_until([&] { return !op.in_kernel(); });
        BOOST_TEST(drain(pair.ours) == 1u);
    }
}

// ---- the end ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(a_ring_that_goes_takes_back_whatever_is_under_way, Backend, both_backends) {
    const listening listener;
    const listening full(0);
    std::array<unique_fd, 4> fillers;
    for (unique_fd& fd : fillers) {
        fd = unique_fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
        static_cast<void>(!::connect(fd.get(), reinterpret_cast<const sockaddr*>(&full.at), sizeof full.at));
    }
    const unique_fd caller = tcp_socket();
    socket_pair pair, stuffed;
    fill(stuffed.ours);
    std::array<char, 8> into{};
    std::array<probe, 5> ops;
    {
        ring_world w(Backend::options());
        accept(w.ring, ops[0], listener.fd);
        connect(w.ring, ops[1], caller, full.at);
        w.ring.start(ops[2], [&](io_uring_sqe& entry) { io_uring_prep_recv(&entry, pair.ours.get(), into.data(), into.size(), 0); });
        send(w.ring, ops[3], stuffed.ours, "more");
        poll(w.ring, ops[4], pair.ours, POLLIN);
        w.some_turns();
        BOOST_TEST(w.ring.in_kernel() == 5u);
    }
    for (const probe& op : ops) {
        BOOST_TEST(!op.in_kernel());
        BOOST_TEST(op.completions == 0);
    }
    pair.say("late");
    BOOST_TEST(into[0] == '\0');
    BOOST_TEST(drain(pair.ours) == 4u);
    const unique_fd client = listener.dial();
    pollfd waiting{listener.fd.get(), POLLIN, 0};
    BOOST_TEST(::poll(&waiting, 1, 10'000) == 1); // nobody has taken it
}

// ---- epoll alone -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(epoll_says_why_it_is_there) {
    const ring_world by_kernels_own;
    BOOST_TEST(by_kernels_own.ring.by_epoll() == "");
    const ring_world w(by_epoll::options());
    BOOST_TEST(w.ring.by_epoll().starts_with("io_uring is switched off by an option"));
    BOOST_TEST(w.ring.description().starts_with("epoll: io_uring is switched off by an option"));
    BOOST_TEST(w.ring.setup_flags() == 0u);
    BOOST_TEST(!w.ring.supports(IORING_OP_RECV)); // files must go another way
}

BOOST_AUTO_TEST_CASE(epoll_refuses_what_it_does_not_serve) {
    ring_world w(by_epoll::options());
    socket_pair pair;
    probe sync, again, unregistered;
    w.ring.start(sync, [&](io_uring_sqe& entry) { io_uring_prep_fsync(&entry, pair.ours.get(), 0); });
    w.ring.start(again, [&](io_uring_sqe& entry) { io_uring_prep_poll_multishot(&entry, pair.ours.get(), POLLIN); });
    receive(w.ring, unregistered, pair.ours); // a group that nobody knows
    w.turn_until([&] { return w.ring.in_kernel() == 0; });
    BOOST_TEST(sync.result == -EINVAL);
    BOOST_TEST(again.result == -EINVAL);
    BOOST_TEST(unregistered.result == -ENOBUFS);
}

BOOST_AUTO_TEST_CASE(epoll_takes_a_bounded_number_of_pieces_at_a_look) {
    ring_world w(by_epoll::options());
    socket_pair pair;
    provided buffers(w.ring, 1, 60);
    probe op;
    receive(w.ring, op, pair.ours);
    w.loop.poll_once();
    pair.say(std::string(60, 'x'));
    int before = 0, most = 0;
    w.turn_until([&] {
        most = std::max(most, op.completions - before);
        before = op.completions;
        return before >= 60;
    });
    BOOST_TEST(most == 16);
    w.ring.cancel(op);
    w.ring.wait(op);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
