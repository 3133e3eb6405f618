// lwip_peer: lwIP (Debian's liblwip) behind a tap device, the peer of lwip.py: servers, and clients that check every byte that returns.
// lwip.sh compiles it. One thread drives the stack by its raw API, its timers and the device in turn; lwIP's own thread is not started.
//
//     lwip_peer DEVICE ADDRESS serve                           echo at TCP and UDP port 7, a tally at 9, resets at 11; until it is killed
//     lwip_peer DEVICE ADDRESS echo SERVER PORT COUNT BYTES    COUNT connections, one after the other, each ended by a half-close
//     lwip_peer DEVICE ADDRESS stream SERVER PORT BYTES        one way, and then the server's tally
//     lwip_peer DEVICE ADDRESS reset SERVER PORT COUNT         COUNT connections, reset when the first bytes have come back
//     lwip_peer DEVICE ADDRESS refused SERVER PORT             succeeds if the connection is refused
//     lwip_peer DEVICE ADDRESS datagrams SERVER PORT COUNT BYTES
#include <lwip/etharp.h>
#include <lwip/ethip6.h>
#include <lwip/init.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <lwip/udp.h>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

namespace {

using steady = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{25}; // that a client's work may take
constexpr std::size_t largest_frame = 1514;
constexpr int frames_a_turn = 64; // that the device may deliver before the timers are looked at

[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::fputs("lwip_peer: ", stdout);
    std::vprintf(format, arguments);
    std::puts("");
    va_end(arguments);
    std::exit(1);
}

void check(err_t error, const char* what) {
    if (error != ERR_OK) fail("%s: lwIP's error %d", what, error);
}

// ---- the device

int tap = -1;

err_t transmit(netif*, pbuf* frame) {
    std::array<std::uint8_t, largest_frame> bytes;
    if (frame->tot_len > bytes.size()) return ERR_BUF;
    pbuf_copy_partial(frame, bytes.data(), frame->tot_len, 0);
    return ::write(tap, bytes.data(), frame->tot_len) == frame->tot_len ? ERR_OK : ERR_IF;
}

err_t set_up(netif* interface) {
    static_assert(ETH_PAD_SIZE == 0);
    constexpr std::uint8_t mac[] = {0x02, 0x6c, 0x77, 0x69, 0x70, 0x01};
    interface->name[0] = 'l';
    interface->name[1] = 'w';
    interface->output = etharp_output;
#if LWIP_IPV6
    interface->output_ip6 = ethip6_output;
#endif
    interface->linkoutput = transmit;
    interface->mtu = 1500;
    interface->hwaddr_len = sizeof mac;
    std::copy(std::begin(mac), std::end(mac), interface->hwaddr);
    interface->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_MLD6 | NETIF_FLAG_LINK_UP;
    return ERR_OK;
}

void attach(const char* device) {
    tap = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    std::strncpy(request.ifr_name, device, sizeof request.ifr_name - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (tap < 0 || ::ioctl(tap, TUNSETIFF, &request) != 0) fail("%s: %s", device, std::strerror(errno));
}

/// False when nothing has come.
bool receive(netif& interface) {
    std::array<std::uint8_t, 2048> bytes;
    const ssize_t size = ::read(tap, bytes.data(), bytes.size());
    if (size <= 0) return false;
    // Not PBUF_POOL: Debian's 2.1.3 takes its buffers for 1,536 bytes long, and they have 592.
    pbuf* frame = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(size), PBUF_RAM);
    if (frame == nullptr) fail("no memory for a frame");
    pbuf_take(frame, bytes.data(), static_cast<u16_t>(size));
    if (interface.input(frame, &interface) != ERR_OK) pbuf_free(frame);
    return true;
}

/// The stack runs until done() is true, or the peer's patience has an end.
template <class Done>
void run(netif& interface, const char* what, Done done) {
    const auto give_up = steady::now() + patience;
    while (!done()) {
        if (steady::now() > give_up) fail("%s: not within %d s", what, static_cast<int>(patience.count()));
        pollfd readable{tap, POLLIN, 0};
        ::poll(&readable, 1, static_cast<int>(std::min<u32_t>(sys_timeouts_sleeptime(), 100)));
        for (int i = 0; i < frames_a_turn && receive(interface); ++i) {
        }
        sys_check_timeouts();
    }
}

// ---- what is sent: each byte says where in which connection it stands

std::uint8_t byte_at(std::uint64_t place) {
    std::uint64_t x = (place / 8 + 1) * 0x9e3779b97f4a7c15u; // the finaliser of SplitMix64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return static_cast<std::uint8_t>((x ^ x >> 31) >> place % 8 * 8);
}

constexpr std::uint64_t start_of(unsigned connection) { return std::uint64_t{connection} << 32; }

void expect(const pbuf* data, std::uint64_t place) {
    for (; data != nullptr; data = data->next) {
        const auto* bytes = static_cast<const std::uint8_t*>(data->payload);
        for (u16_t i = 0; i < data->len; ++i, ++place) {
            if (bytes[i] != byte_at(place)) fail("byte %u of number %u came back as another", unsigned(place), unsigned(place >> 32));
        }
    }
}

/// Nothing of `pcb` is to be heard any more.
void forget(tcp_pcb* pcb) {
    tcp_arg(pcb, nullptr);
    tcp_recv(pcb, nullptr);
    tcp_sent(pcb, nullptr);
    tcp_err(pcb, nullptr);
    tcp_poll(pcb, nullptr, 0);
}

// ---- the server

enum class behaviour { echo, tally, reset };

/// A connection that was accepted; deletes itself at its end.
struct session {
    tcp_pcb* pcb;
    behaviour what;
    std::deque<pbuf*> waiting{}; // to be sent back: at most a window, which opens when it has gone
    std::uint64_t received = 0;
    bool ended = false; // by the peer
    bool tallied = false;

    ~session() {
        for (pbuf* p : waiting) pbuf_free(p);
    }

    bool write(const void* data, u16_t size) { return tcp_write(pcb, data, size, TCP_WRITE_FLAG_COPY) == ERR_OK; }

    void send_back() {
        while (!waiting.empty()) {
            pbuf*& first = waiting.front();
            const u16_t size = std::min<tcpwnd_size_t>(first->len, tcp_sndbuf(pcb));
            if (size == 0 || !write(first->payload, size)) return;
            tcp_recved(pcb, size);
            first = pbuf_free_header(first, size);
            if (first == nullptr) waiting.pop_front();
        }
    }

    void tell_tally() {
        std::array<std::uint8_t, 8> number;
        for (int i = 0; i < 8; ++i) number[i] = static_cast<std::uint8_t>(received >> (56 - 8 * i));
        tallied = write(number.data(), number.size());
    }

    /// Does what can be done now.
    void go_on() {
        send_back();
        if (ended && what == behaviour::tally && !tallied) tell_tally();
        tcp_output(pcb);
        if (!ended || !waiting.empty() || (what == behaviour::tally && !tallied)) return;
        if (tcp_close(pcb) != ERR_OK) return; // out of memory: tcp_poll asks again
        forget(pcb);
        delete this;
    }

    err_t take(pbuf* data) {
        if (data == nullptr) {
            ended = true;
        } else if (what == behaviour::echo) {
            waiting.push_back(data);
        } else {
            received += data->tot_len;
            tcp_recved(pcb, data->tot_len);
            pbuf_free(data);
            if (what == behaviour::reset) {
                forget(pcb);
                tcp_abort(pcb);
                delete this;
                return ERR_ABRT;
            }
        }
        go_on();
        return ERR_OK;
    }
};

err_t accepted(void* what, tcp_pcb* pcb, err_t error) {
    if (error != ERR_OK || pcb == nullptr) return ERR_VAL;
    tcp_nagle_disable(pcb);
    tcp_arg(pcb, new session{pcb, *static_cast<const behaviour*>(what)});
    tcp_recv(pcb, [](void* s, tcp_pcb*, pbuf* data, err_t) { return static_cast<session*>(s)->take(data); });
    tcp_sent(pcb, [](void* s, tcp_pcb*, u16_t) { return static_cast<session*>(s)->go_on(), err_t{ERR_OK}; });
    tcp_poll(pcb, [](void* s, tcp_pcb*) { return static_cast<session*>(s)->go_on(), err_t{ERR_OK}; }, 1);
    tcp_err(pcb, [](void* s, err_t) { delete static_cast<session*>(s); });
    return ERR_OK;
}

void listen(u16_t port, const behaviour& what) {
    tcp_pcb* pcb = tcp_new_ip_type(IPADDR_TYPE_ANY);
    check(tcp_bind(pcb, IP_ANY_TYPE, port), "bind");
    pcb = tcp_listen(pcb);
    if (pcb == nullptr) fail("no room for a listener");
    tcp_arg(pcb, const_cast<behaviour*>(&what));
    tcp_accept(pcb, accepted);
}

void return_datagram(void*, udp_pcb* pcb, pbuf* data, const ip_addr_t* from, u16_t port) {
    udp_sendto(pcb, data, from, port);
    pbuf_free(data);
}

void serve(netif& interface) {
    static constexpr behaviour echo = behaviour::echo, tally = behaviour::tally, reset = behaviour::reset;
    listen(7, echo);
    listen(9, tally);
    listen(11, reset);
    udp_pcb* datagrams = udp_new_ip_type(IPADDR_TYPE_ANY);
    check(udp_bind(datagrams, IP_ANY_TYPE, 7), "bind");
    udp_recv(datagrams, return_datagram, nullptr);
    std::printf("lwip_peer: serves; lwIP %s, MSS %d, window %d\n", LWIP_VERSION_STRING, TCP_MSS, int{TCP_WND});
    std::fflush(stdout);
    for (;;) {
        const auto until = steady::now() + patience / 2;
        run(interface, "serve", [&] { return steady::now() > until; });
    }
}

// ---- the clients

/// One connection to a server of ours.
struct call {
    std::uint64_t place; // of its first byte
    std::uint64_t size;
    behaviour server = behaviour::echo; // reset: we do that, when the first bytes have come back from an echo
    tcp_pcb* pcb = nullptr;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t tally = 0; // as received until now
    bool half_closed = false;
    bool over = false;
    err_t error = ERR_OK;

    void start(const ip_addr_t& to, u16_t port) {
        pcb = tcp_new_ip_type(IP_GET_TYPE(&to));
        if (pcb == nullptr) fail("no room for a connection");
        tcp_nagle_disable(pcb);
        tcp_arg(pcb, this);
        tcp_recv(pcb, [](void* c, tcp_pcb*, pbuf* data, err_t) { return static_cast<call*>(c)->take(data); });
        tcp_sent(pcb, [](void* c, tcp_pcb*, u16_t) { return static_cast<call*>(c)->send(), err_t{ERR_OK}; });
        tcp_poll(pcb, [](void* c, tcp_pcb*) { return static_cast<call*>(c)->poll(), err_t{ERR_OK}; }, 1);
        tcp_err(pcb, [](void* c, err_t why) { static_cast<call*>(c)->failed(why); });
        const auto connected = [](void* c, tcp_pcb*, err_t) { return static_cast<call*>(c)->send(), err_t{ERR_OK}; };
        check(tcp_connect(pcb, &to, port, connected), "connect");
    }

    void poll() {
        if (pcb->state != SYN_SENT) send();
    }

    void send() {
        std::array<std::uint8_t, 1460> block;
        while (sent < size) {
            const auto room = static_cast<u16_t>(std::min<std::uint64_t>({size - sent, tcp_sndbuf(pcb), block.size()}));
            for (u16_t i = 0; i < room; ++i) block[i] = byte_at(place + sent + i);
            if (room == 0 || tcp_write(pcb, block.data(), room, TCP_WRITE_FLAG_COPY) != ERR_OK) break;
            sent += room;
        }
        tcp_output(pcb);
        if (sent == size && !half_closed && server != behaviour::reset) half_closed = tcp_shutdown(pcb, 0, 1) == ERR_OK;
    }

    err_t take(pbuf* data) {
        if (data == nullptr) {
            end();
            return ERR_OK;
        }
        if (server == behaviour::tally) {
            for (u16_t i = 0; i < data->tot_len; ++i) tally = tally << 8 | pbuf_get_at(data, i);
        } else {
            expect(data, place + received);
        }
        received += data->tot_len;
        tcp_recved(pcb, data->tot_len);
        pbuf_free(data);
        if (received > size) fail("more came back than was sent");
        if (server != behaviour::reset) return ERR_OK;
        forget(pcb);
        tcp_abort(pcb);
        over = true;
        return ERR_ABRT;
    }

    void end() {
        const std::uint64_t expected = server == behaviour::tally ? sizeof tally : size;
        if (received != expected) fail("the end came after %u of %u bytes", unsigned(received), unsigned(expected));
        if (server == behaviour::tally && tally != size) fail("%u bytes were sent, %u counted", unsigned(size), unsigned(tally));
        forget(pcb);
        check(tcp_close(pcb), "close");
        over = true;
    }

    void failed(err_t why) { // lwIP has freed the connection
        error = why;
        over = true;
    }
};

struct target {
    netif& interface;
    ip_addr_t server;
    u16_t port;
};

/// Plays one connection to its end; lwIP's error.
err_t play(const target& to, call one) {
    one.start(to.server, to.port);
    run(to.interface, "a connection", [&] { return one.over; });
    return one.error;
}

void echo(const target& to, unsigned count, std::uint64_t bytes) {
    for (unsigned i = 0; i < count; ++i) check(play(to, {start_of(i), bytes}), "a connection");
}

void stream(const target& to, std::uint64_t bytes) { check(play(to, {start_of(0), bytes, behaviour::tally}), "a connection"); }

void reset(const target& to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) check(play(to, {start_of(i), 100'000, behaviour::reset}), "a connection to be reset");
    echo(to, 1, 1000); // and the server is there still
}

void refused(const target& to) {
    const err_t error = play(to, {start_of(0), 1});
    if (error != ERR_RST) fail("not refused: lwIP's error %d", error);
}

void datagrams(const target& to, unsigned count, u16_t bytes) {
    udp_pcb* pcb = udp_new_ip_type(IP_GET_TYPE(&to.server));
    check(udp_connect(pcb, &to.server, to.port), "connect");
    unsigned answered = 0;
    struct expected {
        unsigned& answered;
        u16_t bytes;
    } context{answered, bytes};
    const auto take = [](void* context, udp_pcb*, pbuf* data, const ip_addr_t*, u16_t) {
        auto& it = *static_cast<expected*>(context);
        if (data->tot_len != it.bytes) fail("%u bytes came back of %u", unsigned(data->tot_len), unsigned(it.bytes));
        expect(data, start_of(it.answered));
        pbuf_free(data);
        ++it.answered;
    };
    udp_recv(pcb, take, &context);
    for (unsigned i = 0; i < count; ++i) {
        pbuf* data = pbuf_alloc(PBUF_TRANSPORT, bytes, PBUF_RAM);
        if (data == nullptr) fail("no room for a datagram");
        for (u16_t j = 0; j < bytes; ++j) pbuf_put_at(data, j, byte_at(start_of(i) + j));
        check(udp_send(pcb, data), "send");
        pbuf_free(data);
        run(to.interface, "a datagram", [&] { return answered > i; });
    }
}

ip4_addr_t ipv4(const char* text) {
    ip4_addr_t address;
    if (!ip4addr_aton(text, &address)) fail("not an address: %s", text);
    return address;
}

/// The address, of either family, and the network of 24 or 64 bits that it is in.
void configure(netif& interface, const char* address) {
    const bool v6 = std::strchr(address, ':') != nullptr;
    const ip4_addr_t ours = ipv4(v6 ? "0.0.0.0" : address), mask = ipv4("255.255.255.0"), no_router = ipv4("0.0.0.0");
    netif_add(&interface, &ours, &mask, &no_router, nullptr, set_up, netif_input);
    netif_set_default(&interface);
#if LWIP_IPV6
    netif_create_ip6_linklocal_address(&interface, 1);
    netif_ip6_addr_set_state(&interface, 0, IP6_ADDR_PREFERRED);
    ip6_addr_t ours6;
    if (v6 && ip6addr_aton(address, &ours6)) {
        netif_ip6_addr_set(&interface, 1, &ours6);
        netif_ip6_addr_set_state(&interface, 1, IP6_ADDR_PREFERRED);
    }
#else
    if (v6) fail("this lwIP has no IPv6");
#endif
    netif_set_up(&interface);
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 4) fail("what is to be done? (the head of its source says it)");
    attach(argv[1]);
    std::srand(static_cast<unsigned>(::getpid())); // lwIP takes its first port from it
    lwip_init();
    netif interface{};
    configure(interface, argv[2]);
    const std::string what = argv[3];
    const auto number = [&](int i) { return i < argc ? std::strtoul(argv[i], nullptr, 10) : 0; };
    if (what == "serve") serve(interface);
    if (argc < 6) fail("%s: which server and port?", what.c_str());
    target to{interface, {}, static_cast<u16_t>(number(5))};
    if (!ipaddr_aton(argv[4], &to.server)) fail("not an address: %s", argv[4]);
    const auto began = steady::now();
    if (what == "echo") echo(to, number(6), number(7));
    else if (what == "stream") stream(to, number(6));
    else if (what == "reset") reset(to, number(6));
    else if (what == "refused") refused(to);
    else if (what == "datagrams") datagrams(to, number(6), static_cast<u16_t>(number(7)));
    else fail("%s is unknown", what.c_str());
    std::printf("lwip_peer: %s, as it should be, in %.2f s\n", what.c_str(),
                std::chrono::duration<double>(steady::now() - began).count());
}
