// InfiniBand: membership of a port in a multicast group, asked of the subnet's administrator by rdma_cm, and what all members must use:
// Q_Key, LID, service level. As the kernel's IPoIB does it (port space RDMA_PS_IPOIB), beside its interface on that port, by whose IPv4
// address rdma_cm finds the port. The administrator gives a group that is made by this what the broadcast group of that interface has.
//
// Made by main(), which it lets wait; renew() and heard() do not wait. Left when it is destroyed.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/rdma/verbs/cm_api.hh>
#include <corewire/rdma/verbs/device.hh>

#include <chrono>
#include <infiniband/ib.h>
#include <optional>

namespace corewire::verbs {

/// The kernel's IPoIB interface on a port of a device.
struct ipoib_interface {
    ipv4 address;           ///< one of its own
    std::uint32_t mtu = 0;  ///< bytes of IP packet: of the broadcast group, less 4
};
/// The first that has an IPv4 address; nothing if there is none.
std::optional<ipoib_interface> find_ipoib(const device& on, std::uint8_t port);

class fabric_membership {
public:
    struct parameters {
        std::uint32_t key = 0; ///< Q_Key
        std::uint16_t lid = 0;
        std::uint8_t service_level = 0;
        friend bool operator==(const parameters&, const parameters&) = default;
    };

    fabric_membership() noexcept = default;
    /// `ours`: ipoib_interface::address. Throws std::system_error with a sentence; ETIMEDOUT when nobody answers `within`.
    fabric_membership(ipv4 ours, const ibv_gid& group, std::chrono::milliseconds within = std::chrono::seconds{5},
                      const cm_api& api = system_cm());
    fabric_membership(fabric_membership&& other) noexcept { *this = std::move(other); }
    fabric_membership& operator=(fabric_membership&& other) noexcept;
    ~fabric_membership() { leave(); }

    explicit operator bool() const noexcept { return id_ != nullptr; }
    const parameters& group() const noexcept { return group_; }
    /// The administrator may have forgotten us (it has changed, or wants to hear of everything again): asks once more, without waiting;
    /// heard() has the answer when it comes. An errno: it can't even be asked.
    int renew() noexcept;
    /// Nothing: no answer yet. 0: a member, as group() says from now on. Else why not, an errno.
    std::optional<int> heard() noexcept;

private:
    int ask() noexcept;
    void hear(std::chrono::milliseconds within);
    void leave() noexcept;

    const cm_api* api_ = nullptr;
    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* id_ = nullptr;
    sockaddr_ib name_{};
    parameters group_;
    std::uint32_t generation_ = process_generation(); ///< a forked child leaves its parent's alone, as handle<> does
};

} // namespace corewire::verbs
