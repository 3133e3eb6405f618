// Copies of what the kernel receives on an interface, by a packet socket whose filter lets some of it through, given to a stack as if
// another shard had received it. What uses it says which frames: advertisement_listener.hh, icmp_error_listener.hh.
//
//     NIC --not ours--> the kernel, which does with it what it does
//                             \--packet(7), filtered--> kernel_copies --> network_stack
//
// One shard's, over its io_uring; each shard has one, so that nobody passes anything on. Must go before the stack and the reactor.
// The copies come in behind the port: its wrappers (--pcap, --trace, --faults) never see them.
// Bounds: the socket's buffer (a flood is the kernel's to drop), and most_at_once frames a turn.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/readable_watch.hh>

#include <cstdint>
#include <span>

struct sock_filter;

namespace corewire {

class network_stack;
class reactor;

struct listener_statistics {
    std::uint64_t heard = 0;    ///< frames given to the stack
    std::uint64_t dropped = 0;  ///< no frame was free, or longer than a frame
};

class kernel_copies {
public:
    static constexpr unsigned most_at_once = 16;
    /// As a jump's `jt` or `jf` in a filter: does not let the frame through.
    static constexpr std::uint8_t to_end = 99;

    kernel_copies(const kernel_copies&) = delete;
    kernel_copies& operator=(const kernel_copies&) = delete;
    const listener_statistics& statistics() const noexcept { return statistics_; }

protected:
    kernel_copies(reactor& loop, unique_fd socket, network_stack& to);
    ~kernel_copies() = default;

    /// A packet socket that hears nothing until the filter stands. `filter` ends with letting through; `what` is for messages
    /// ("router advertisements"). Throws std::system_error.
    static unique_fd open_socket(std::span<const sock_filter> filter, const char* what);
    /// From now on it hears interface number `interface`, before VLAN interfaces do. Throws std::system_error.
    static void begin(int fd, unsigned interface, const char* what);
    /// The bits of `what` of SKF_AD_...: the kernel keeps tags beside the frame.
    static std::uint32_t beside(int what) noexcept;

    listener_statistics statistics_;

private:
    void on_news() noexcept;
    bool take_one() noexcept;

    reactor& loop_;
    network_stack& stack_;
    unique_fd socket_;
    readable_watch<kernel_copies, &kernel_copies::on_news> news_{*this};
};

} // namespace corewire
