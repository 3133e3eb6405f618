#include <corewire/rdma/verbs/fabric_membership.hh>

#include <corewire/rdma/verbs/error.hh>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>

#ifndef AF_IB
#define AF_IB 27
#endif

namespace corewire::verbs {

namespace {

/// A number in a file of sysfs; -1 if there is none.
long number_in(const std::filesystem::path& file) {
    long value = -1;
    std::ifstream(file) >> value;
    return value;
}

} // namespace

std::optional<ipoib_interface> find_ipoib(const device& on, std::uint8_t port) {
    constexpr long infiniband = 32; // ARPHRD_INFINIBAND
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return std::nullopt;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> freed(all, ::freeifaddrs);
    const std::filesystem::path of_device = std::filesystem::path(on.context()->device->ibdev_path) / "device" / "net";
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
        const std::filesystem::path interface = std::filesystem::path("/sys/class/net") / each->ifa_name;
        std::error_code none;
        if (number_in(interface / "type") != infiniband || !std::filesystem::exists(of_device / each->ifa_name, none)) continue;
        if (number_in(interface / "dev_port") + 1 != port) continue;
        sockaddr_in name;
        std::memcpy(&name, each->ifa_addr, sizeof name);
        return ipoib_interface{ipv4(host_to_be(name.sin_addr.s_addr)), static_cast<std::uint32_t>(number_in(interface / "mtu"))};
    }
    return std::nullopt;
}

fabric_membership::fabric_membership(ipv4 ours, const ibv_gid& group, std::chrono::milliseconds within, const cm_api& api) : api_(&api) {
    const std::string what =
        fmt::format("join the InfiniBand group {} beside the IPoIB interface at {}", to_string(group), wire::to_string(ours));
    name_.sib_family = AF_IB;
    std::memcpy(&name_.sib_addr, group.raw, sizeof group.raw);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = host_to_be(ours.value());
    channel_ = api.create_event_channel();
    if (channel_ == nullptr) fail(operation::open_connection_manager, errno, what);
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    if (api.create_id(channel_, &id_, nullptr, RDMA_PS_IPOIB) == 0 && api.bind_addr(id_, reinterpret_cast<sockaddr*>(&here)) == 0 &&
        ask() == 0) {
        try {
            hear(within);
            return;
        } catch (const std::system_error& e) {
            leave();
            fail(operation::join_multicast, e.code().value(), what);
        }
    }
    const int error = errno;
    leave();
    fail(operation::manage_connection, error, what);
}

int fabric_membership::ask() noexcept { return api_->join_multicast(id_, reinterpret_cast<sockaddr*>(&name_), nullptr); }

/// Throws the errno alone.
void fabric_membership::hear(std::chrono::milliseconds within) {
    const auto give_up = [](int error) { throw std::system_error(error, std::generic_category()); };
    const auto deadline = std::chrono::steady_clock::now() + within;
    for (;;) {
        const std::optional<int> said = heard();
        if (said == 0) return;
        if (said) give_up(*said);
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) give_up(ETIMEDOUT);
        pollfd waited{channel_->fd, POLLIN, 0};
        ::poll(&waited, 1, static_cast<int>(left.count())); // a signal, or nothing yet: it is looked again
    }
}

std::optional<int> fabric_membership::heard() noexcept {
    rdma_cm_event* event = nullptr;
    if (id_ == nullptr) return std::nullopt;
    if (api_->get_cm_event(channel_, &event) != 0) return errno == EAGAIN || errno == EINTR ? std::nullopt : std::optional(errno);
    const int status = event->status;
    const bool joined = event->event == RDMA_CM_EVENT_MULTICAST_JOIN && status == 0;
    if (joined) group_ = {event->param.ud.qkey, event->param.ud.ah_attr.dlid, event->param.ud.ah_attr.sl};
    api_->ack_cm_event(event);
    return joined ? 0 : status < 0 ? -status : EINVAL;
}

int fabric_membership::renew() noexcept {
    if (id_ == nullptr) return 0;
    rdma_cm_event* event = nullptr;
    while (api_->get_cm_event(channel_, &event) == 0) api_->ack_cm_event(event);
    api_->leave_multicast(id_, reinterpret_cast<sockaddr*>(&name_));
    return ask() == 0 ? 0 : errno;
}

fabric_membership& fabric_membership::operator=(fabric_membership&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(channel_, other.channel_);
    std::swap(id_, other.id_);
    std::swap(name_, other.name_);
    std::swap(group_, other.group_);
    std::swap(generation_, other.generation_);
    return *this;
}

void fabric_membership::leave() noexcept {
    if (channel_ == nullptr || generation_ != process_generation()) return;
    rdma_cm_event* event = nullptr;
    while (api_->get_cm_event(channel_, &event) == 0) api_->ack_cm_event(event);
    if (id_ != nullptr) api_->destroy_id(std::exchange(id_, nullptr)); // leaves its groups
    api_->destroy_event_channel(std::exchange(channel_, nullptr));
}

} // namespace corewire::verbs
