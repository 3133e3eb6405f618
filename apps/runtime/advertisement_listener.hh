// --slaac over AF_XDP: router advertisements to all nodes (ff02::1) are the kernel's, which configures itself by them, and an XDP
// program can't give one frame to two. So the kernel hands over copies, by a packet socket that lets nothing else through.
//
//     XDP program --not ours--> kernel: its own autoconfiguration
//                                     \--packet(7), filtered: ICMPv6, type 134--> advertisement_listener --> network_stack
//
// One shard's, over its io_uring; each shard has one, so that nobody passes anything on. Must go before the stack and the reactor.
// The copies come in behind the port: its wrappers (--pcap, --trace, --faults) never see them.
// Bounds: the socket's buffer (a flood is the kernel's to drop), and most_at_once frames a turn.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/file/uring_operation.hh>

#include <cstdint>

namespace corewire {

class metric_group;
class network_stack;
class reactor;

struct listener_statistics {
    std::uint64_t heard = 0;    ///< advertisements given to the stack
    std::uint64_t dropped = 0;  ///< no frame was free, or longer than a frame
};

class advertisement_listener {
public:
    static constexpr unsigned most_at_once = 16;

    /// Hears interface number `interface`, there the VLAN `vlan` (0: none). Throws std::system_error.
    advertisement_listener(reactor& loop, unsigned interface, std::uint16_t vlan, network_stack& to);
    ~advertisement_listener();
    advertisement_listener(const advertisement_listener&) = delete;
    advertisement_listener& operator=(const advertisement_listener&) = delete;

    const listener_statistics& statistics() const noexcept { return statistics_; }
    /// The group goes before this does.
    void register_metrics(metric_group& group) const;

private:
    void wait_for_news() noexcept;
    void on_news(int result, unsigned flags) noexcept;
    bool take_one() noexcept;

    reactor& loop_;
    uring& ring_;
    network_stack& stack_;
    unique_fd socket_;
    listener_statistics statistics_;
    bool ending_ = false;
    bound_operation<advertisement_listener, &advertisement_listener::on_news> news_{*this};
};

} // namespace corewire
