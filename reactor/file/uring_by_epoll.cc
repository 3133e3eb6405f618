#include <corewire/reactor/file/uring_by_epoll.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

/// From its submission until its last completion has a place in the queue.
struct uring_by_epoll::request : list_hook {
    explicit request(const io_uring_sqe& s) noexcept : asked{s} {}

    struct : io_uring_sqe {} asked; ///< a base, since it ends with an array of no size
    watched* at = nullptr;        ///< the descriptor that it waits for
    unsigned name_room = 0;       ///< RECVMSG: bytes before the payload, for the sender's address
    unsigned control_room = 0;    ///< ... and for control messages
    bool connecting = false;      ///< CONNECT: the handshake is under way
    bool drained = false;         ///< RECV: the last piece was a short one, so nothing was left
    int result = 0;               ///< once it is over
    unsigned flags = 0;           ///< of its next completion
};

/// A descriptor, and who waits for it: epoll(7) takes each once.
struct uring_by_epoll::watched {
    explicit watched(int descriptor) noexcept : fd(descriptor) {}

    int fd;
    std::uint32_t armed = 0; ///< what epoll watches it for
    intrusive_list<request> waiting;
};

namespace {

constexpr unsigned turns_a_look = 64;
constexpr duration shortest_gap = std::chrono::microseconds{1};

template <typename T>
T* pointer(std::uint64_t from) noexcept {
    return reinterpret_cast<T*>(from);
}

int or_error(ssize_t result) noexcept { return result < 0 ? -errno : static_cast<int>(result); }

bool goes_on(const io_uring_sqe& asked) noexcept {
    switch (asked.opcode) {
    case IORING_OP_ACCEPT: return (asked.ioprio & IORING_ACCEPT_MULTISHOT) != 0;
    case IORING_OP_RECV:
    case IORING_OP_RECVMSG: return (asked.ioprio & IORING_RECV_MULTISHOT) != 0;
    default: return false;
    }
}

/// It was asked not to try before there is something to receive. (IORING_ACCEPT_MULTISHOT is the same bit.)
bool waits_first(const io_uring_sqe& asked) noexcept {
    const bool receives = asked.opcode == IORING_OP_RECV || asked.opcode == IORING_OP_RECVMSG;
    return receives && (asked.ioprio & IORING_RECVSEND_POLL_FIRST) != 0;
}

/// It was asked not to wait.
bool is_impatient(const io_uring_sqe& asked) noexcept {
    const bool has_flags = asked.opcode == IORING_OP_SEND || asked.opcode == IORING_OP_RECV || asked.opcode == IORING_OP_RECVMSG;
    return has_flags && !goes_on(asked) && (asked.msg_flags & MSG_DONTWAIT) != 0;
}

/// What it waits for. Errors and hang-ups come unasked; that something is always there tells a registered descriptor.
std::uint32_t events_of(const io_uring_sqe& asked) noexcept {
    switch (asked.opcode) {
    case IORING_OP_POLL_ADD: return asked.poll32_events | EPOLLERR; // EPOLLIN is POLLIN, and so on
    case IORING_OP_CONNECT:
    case IORING_OP_SEND: return EPOLLOUT | EPOLLERR;
    default: return EPOLLIN | EPOLLERR;
    }
}

int poll_once(const io_uring_sqe& asked) noexcept {
    pollfd look{asked.fd, static_cast<short>(asked.poll32_events), 0};
    if (::poll(&look, 1, 0) < 0) return -errno;
    if ((look.revents & POLLNVAL) != 0) return -EBADF;
    return look.revents == 0 ? -EAGAIN : look.revents;
}

void make_non_blocking(int fd) noexcept {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) == 0) ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/// The outcome of a handshake that was under way.
int connected(int fd) noexcept {
    int why = 0;
    socklen_t size = sizeof why;
    return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0 ? -errno : -why;
}

} // namespace

uring_by_epoll::uring_by_epoll(io_uring& ring, unsigned entries, unsigned completion_entries)
    : ring_(ring), epoll_(::epoll_create1(EPOLL_CLOEXEC)), submissions_(std::make_unique_for_overwrite<io_uring_sqe[]>(entries)),
      completions_(std::make_unique_for_overwrite<io_uring_cqe[]>(completion_entries)) {
    if (!epoll_) throw std::system_error(errno, std::generic_category(), "cannot make an epoll instance");
    ring_ = {};
    ring_.ring_fd = ring_.enter_ring_fd = -1;
    ring_.sq.khead = &submissions_head_;
    ring_.sq.ktail = &submissions_tail_;
    ring_.sq.kflags = &flags_;
    ring_.sq.sqes = submissions_.get();
    ring_.sq.ring_entries = entries;
    ring_.sq.ring_mask = entries - 1;
    ring_.sq.kring_entries = &ring_.sq.ring_entries;
    ring_.sq.kring_mask = &ring_.sq.ring_mask;
    ring_.cq.khead = &completions_head_;
    ring_.cq.ktail = &completed_;
    ring_.cq.cqes = completions_.get();
    ring_.cq.ring_entries = completion_entries;
    ring_.cq.ring_mask = completion_entries - 1;
    ring_.cq.kring_entries = &ring_.cq.ring_entries;
    ring_.cq.kring_mask = &ring_.cq.ring_mask;
}

uring_by_epoll::~uring_by_epoll() = default;

// ---- taking requests in ----------------------------------------------------------------------------------------------

int uring_by_epoll::enter(bool wait) noexcept {
    post_ended();
    io_uring_sq& queue = ring_.sq;
    while (queue.sqe_head != queue.sqe_tail && take(queue.sqes[queue.sqe_head & queue.ring_mask]))
        submissions_head_ = ++queue.sqe_head;
    if (queue.sqe_head != queue.sqe_tail) return -EAGAIN;
    while (wait && ready() == 0 && !descriptors_.empty()) serve(-1);
    return 0;
}

/// False: there is no memory for it.
bool uring_by_epoll::take(const io_uring_sqe& asked) noexcept {
    if (asked.opcode == IORING_OP_ASYNC_CANCEL) return cancel(asked), true;
    request* made = nullptr;
    try {
        const auto [at, is_new] = requests_.try_emplace(asked.user_data, asked);
        CW_ASSERT(is_new, "two requests with one user_data");
        made = &at->second;
    } catch (const std::bad_alloc&) {
        return false;
    }
    request& r = *made;
    if (asked.opcode == IORING_OP_RECVMSG) {
        const auto& layout = *pointer<const msghdr>(asked.addr);
        r.name_room = layout.msg_namelen;
        r.control_room = static_cast<unsigned>(layout.msg_controllen);
    } else if (asked.opcode == IORING_OP_CONNECT || asked.opcode == IORING_OP_ACCEPT) {
        make_non_blocking(asked.fd);
    }
    int result = waits_first(asked) ? -EAGAIN : attempt(r);
    if (result == -EAGAIN && !is_impatient(asked)) {
        result = watch(r);
        if (result == 0) return true;
    }
    end(r, result);
    return true;
}

void uring_by_epoll::cancel(const io_uring_sqe& asked) noexcept {
    if ((asked.cancel_flags & IORING_ASYNC_CANCEL_ANY) != 0) {
        for (auto at = requests_.begin(); at != requests_.end();) withdraw((at++)->second);
    } else if (const auto at = requests_.find(asked.addr); at != requests_.end()) {
        withdraw(at->second);
    }
}

/// Unless it is over already.
void uring_by_epoll::withdraw(request& r) noexcept {
    if (r.at == nullptr) return;
    watched& w = *r.at;
    end(r, -ECANCELED);
    arm(w);
}

// ---- waiting for descriptors -----------------------------------------------------------------------------------------

/// 0, or -errno.
int uring_by_epoll::watch(request& r) noexcept {
    try {
        r.at = &descriptors_.try_emplace(r.asked.fd, r.asked.fd).first->second;
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
    watched& w = *r.at;
    w.waiting.push_back(r);
    const int error = arm(w);
    if (error == 0) return 0;
    r.unlink();
    r.at = nullptr;
    arm(w);
    return error;
}

/// Has epoll watch it for what is waited for, or no longer. 0, or -errno.
int uring_by_epoll::arm(watched& w) noexcept {
    if (w.waiting.empty()) {
        if (w.armed != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, w.fd, nullptr);
        descriptors_.erase(w.fd);
        return 0;
    }
    epoll_event wanted{};
    w.waiting.for_each([&](const request& r) { wanted.events |= events_of(r.asked); });
    if (wanted.events == w.armed) return 0;
    wanted.data.fd = w.fd;
    if (::epoll_ctl(epoll_.get(), w.armed == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, w.fd, &wanted) != 0)
        return errno == ENOSPC ? -ENOMEM : -errno; // fs.epoll.max_user_watches: who accepts is told, as with other wants
    w.armed = wanted.events;
    return 0;
}

void uring_by_epoll::look_soon() noexcept {
    gap_ = {};
    next_look_ = {};
}

/// Counts turns as well: a clock may be a test's, and stand still.
void uring_by_epoll::look(time_point now) noexcept {
    if (++turns_without_look_ < turns_a_look && now < next_look_) return;
    turns_without_look_ = 0;
    gap_ = serve(0) ? duration{0} : std::clamp(2 * gap_, shortest_gap, longest_gap);
    next_look_ = now + gap_;
}

/// False: no descriptor was ready.
bool uring_by_epoll::serve(int patience_ms) noexcept {
    post_ended();
    if (descriptors_.empty()) return false;
    std::array<epoll_event, descriptors_a_look> events;
    const int found = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), patience_ms);
    for (int i = 0; i < found; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const auto at = descriptors_.find(event.data.fd);
        if (at == descriptors_.end()) continue; // closed too soon, while another process holds it
        watched& w = at->second;
        w.waiting.for_each([&](request& r) {
            if ((event.events & (events_of(r.asked) | EPOLLHUP)) == 0) return;
            if (const int result = attempt(r); result != -EAGAIN) end(r, result);
        });
        arm(w);
    }
    return found > 0;
}

// ---- doing what was asked --------------------------------------------------------------------------------------------

/// Does what can be done now, a bounded number of times if it goes on. How it has ended, or -EAGAIN: it waits.
int uring_by_epoll::attempt(request& r) noexcept {
    if (!goes_on(r.asked)) return call(r);
    const int least = r.asked.opcode == IORING_OP_ACCEPT ? 0 : 1; // a descriptor, or bytes
    for (unsigned pieces = 0; pieces < pieces_a_look && has_room(); ++pieces) {
        const int result = call(r);
        if (result < least) return result;
        post(r.asked.user_data, result, r.flags | IORING_CQE_F_MORE);
        r.flags = 0;
        if (r.drained) break;
    }
    return -EAGAIN;
}

int uring_by_epoll::call(request& r) noexcept {
    const io_uring_sqe& a = r.asked;
    switch (a.opcode) {
    case IORING_OP_NOP: return 0;
    case IORING_OP_POLL_ADD: return a.len == 0 ? poll_once(a) : -EINVAL;
    case IORING_OP_CONNECT:
        if (r.connecting) return connected(a.fd);
        if (::connect(a.fd, pointer<const sockaddr>(a.addr), static_cast<socklen_t>(a.off)) == 0) return 0;
        r.connecting = errno == EINPROGRESS;
        return r.connecting ? -EAGAIN : -errno;
    case IORING_OP_ACCEPT:
        return or_error(::accept4(a.fd, pointer<sockaddr>(a.addr), pointer<socklen_t>(a.addr2), static_cast<int>(a.accept_flags)));
    case IORING_OP_SEND:
        return or_error(::send(a.fd, pointer<const void>(a.addr), a.len, static_cast<int>(a.msg_flags) | MSG_NOSIGNAL | MSG_DONTWAIT));
    case IORING_OP_RECV: return receive(r);
    case IORING_OP_RECVMSG: return goes_on(a) ? receive_message(r) : -EINVAL;
    default: return -EINVAL;
    }
}

int uring_by_epoll::receive(request& r) noexcept {
    const io_uring_sqe& a = r.asked;
    const int flags = static_cast<int>(a.msg_flags) | MSG_DONTWAIT;
    if ((a.flags & IOSQE_BUFFER_SELECT) == 0) return or_error(::recv(a.fd, pointer<void>(a.addr), a.len, flags));
    const io_uring_buf* into = next_buffer(a.buf_group);
    if (into == nullptr) return -ENOBUFS;
    const int result = or_error(::recv(a.fd, pointer<void>(into->addr), into->len, flags));
    if (result <= 0) return result;
    r.drained = static_cast<unsigned>(result) < into->len;
    r.flags = use_buffer(a.buf_group);
    return result;
}

/// The buffer begins with an io_uring_recvmsg_out and room for address and control messages (io_uring_prep_recvmsg(3)).
int uring_by_epoll::receive_message(request& r) noexcept {
    const io_uring_sqe& a = r.asked;
    const io_uring_buf* into = next_buffer(a.buf_group);
    if (into == nullptr) return -ENOBUFS;
    const unsigned before = static_cast<unsigned>(sizeof(io_uring_recvmsg_out)) + r.name_room + r.control_room;
    if (into->len < before) return -EFAULT;
    auto* const bytes = pointer<std::byte>(into->addr);
    iovec payload{bytes + before, into->len - before};
    msghdr message{};
    message.msg_name = bytes + sizeof(io_uring_recvmsg_out);
    message.msg_namelen = r.name_room;
    message.msg_control = bytes + sizeof(io_uring_recvmsg_out) + r.name_room;
    message.msg_controllen = r.control_room;
    message.msg_iov = &payload;
    message.msg_iovlen = 1;
    const int got = or_error(::recvmsg(a.fd, &message, static_cast<int>(a.msg_flags) | MSG_DONTWAIT));
    if (got < 0) return got;
    *pointer<io_uring_recvmsg_out>(into->addr) = {
        .namelen = message.msg_namelen,
        .controllen = static_cast<std::uint32_t>(message.msg_controllen),
        .payloadlen = static_cast<std::uint32_t>(got),
        .flags = static_cast<std::uint32_t>(message.msg_flags),
    };
    r.flags = use_buffer(a.buf_group);
    return static_cast<int>(before) + got;
}

// ---- provided buffers ------------------------------------------------------------------------------------------------

int uring_by_epoll::register_buffers(std::uint16_t group, const io_uring_buf_ring& buffers, unsigned entries) noexcept {
    try {
        const auto [at, is_new] = groups_.try_emplace(group, buffer_group{&buffers, static_cast<std::uint16_t>(entries - 1), 0});
        return is_new ? 0 : -EEXIST;
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
}

/// Null: the group has none.
const io_uring_buf* uring_by_epoll::next_buffer(std::uint16_t group) noexcept {
    const auto at = groups_.find(group);
    if (at == groups_.end()) return nullptr;
    const auto& [ring, mask, head] = at->second;
    return head == ring->tail ? nullptr : &ring->bufs[head & mask];
}

/// Takes it from the ring: the flags that name it.
unsigned uring_by_epoll::use_buffer(std::uint16_t group) noexcept {
    buffer_group& from = groups_.find(group)->second;
    const unsigned id = from.ring->bufs[from.head++ & from.mask].bid;
    return IORING_CQE_F_BUFFER | id << IORING_CQE_BUFFER_SHIFT;
}

// ---- and what became of it -------------------------------------------------------------------------------------------

void uring_by_epoll::post(std::uint64_t user_data, int result, unsigned flags) noexcept {
    io_uring_cqe& entry = completions_[completed_ & ring_.cq.ring_mask];
    entry.user_data = user_data;
    entry.res = result;
    entry.flags = flags;
    ++completed_;
}

/// Whoever calls this for one that has waited arms its descriptor anew.
void uring_by_epoll::end(request& r, int result) noexcept {
    r.unlink();
    r.at = nullptr;
    r.result = result;
    ended_.push_back(r);
    post_ended();
}

void uring_by_epoll::post_ended() noexcept {
    while (!ended_.empty() && has_room()) {
        request& r = ended_.pop_front();
        post(r.asked.user_data, r.result, r.flags);
        requests_.erase(r.asked.user_data);
    }
}

} // namespace corewire
