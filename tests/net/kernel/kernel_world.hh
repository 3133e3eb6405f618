// Server and client over one kernel_provider on 127.0.0.1, and a count of what may leak: descriptors and buffers.
#pragma once

#include <corewire/net/kernel/kernel_provider.hh>
#include <tests/support/socket_suite.hh>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <netinet/in.h>
#include <sys/socket.h>

namespace corewire {

inline std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class kernel_world : public socket_suite::world {
public:
    explicit kernel_world(const kernel_provider_options& options = {}, const io_options& io = {})
        : loop_({.io = io}), provider(loop_, options) {
        loop_.attached(reactor::attachment::network) = &provider;
        descriptors_ = open_descriptors();
    }
    ~kernel_world() override {
        reactor::scope here(loop_);
        loop_.root_group().destroy_all();
    }

    reactor& loop() override { return loop_; }
    socket_provider& server() override { return provider; }
    socket_provider& client() override { return provider; }
    net_address server_address() override { return ipv4::loopback(); }
    net_address client_address() override { return ipv4::loopback(); }
    /// A listener whose queue is full: the kernel drops further SYNs.
    socket_address silent_address() override {
        full_listener_ = unique_fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        BOOST_REQUIRE(::bind(full_listener_.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
        BOOST_REQUIRE(::listen(full_listener_.get(), 0) == 0);
        BOOST_REQUIRE(::getsockname(full_listener_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
        for (unique_fd& fd : fillers_) {
            fd = unique_fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
            static_cast<void>(!::connect(fd.get(), reinterpret_cast<sockaddr*>(&at), size));
        }
        return {ipv4::loopback(), ntohs(at.sin_port)};
    }
    duration lateness() override { return std::chrono::seconds{15}; }
    void settle() override {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
        while (provider.objects() != 0 && std::chrono::steady_clock::now() < limit) turn();
        BOOST_TEST(provider.objects() == 0u);
        BOOST_TEST(provider.stream_buffers().lent() == 0u);
        full_listener_.reset();
        for (unique_fd& fd : fillers_) fd.reset();
        BOOST_TEST(open_descriptors() == descriptors_);
    }

private:
    reactor loop_;
    std::size_t descriptors_ = 0;
    unique_fd full_listener_;
    std::array<unique_fd, 4> fillers_;

public:
    kernel_provider provider;
};

/// Where io_uring is forbidden.
inline constexpr io_options without_uring{.allow_uring = false};

struct kernel_world_by_epoll : kernel_world {
    kernel_world_by_epoll() : kernel_world({}, without_uring) {}
};

} // namespace corewire
