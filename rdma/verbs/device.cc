#include <corewire/rdma/verbs/device.hh>

#include <corewire/rdma/verbs/error.hh>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <fmt/format.h>
#include <memory>
#include <net/if.h>

namespace corewire::verbs {

namespace {

class device_list {
public:
    explicit device_list(const verbs_api& api) : api_(api), list_(api.get_device_list(&count_)) {
        if (list_ == nullptr) fail(operation::list_devices, errno, "list the RDMA devices");
    }
    ~device_list() { api_.free_device_list(list_); }
    device_list(const device_list&) = delete;
    ibv_device** begin() const noexcept { return list_; }
    ibv_device** end() const noexcept { return list_ + count_; }

private:
    const verbs_api& api_;
    int count_ = 0;
    ibv_device** list_;
};

std::string all_names(const verbs_api& api) {
    std::string all;
    for (const std::string& name : device_names(api)) all += (all.empty() ? "" : ", ") + name;
    return all.empty() ? "none" : all;
}

} // namespace

std::vector<std::string> device_names(const verbs_api& api) {
    std::vector<std::string> names;
    for (const ibv_device* each : device_list(api)) names.emplace_back(each->name);
    return names;
}

bool port_address::is_ipv4() const noexcept {
    static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.raw, mapped, sizeof mapped) == 0;
}

ipv4 port_address::as_ipv4() const noexcept { return ipv4(gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]); }

net_address port_address::as_ip() const noexcept { return ipv6::load(reinterpret_cast<const std::byte*>(gid.raw)); }

std::string to_string(const ibv_gid& gid) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET6, gid.raw, text, sizeof text);
    return text;
}

device::device(handle<ibv_context, &verbs_api::close_device> owned, ibv_context* context, const verbs_api& api)
    : api_(&api), owned_(std::move(owned)), context_(context), name_(context->device->name) {
    watch_for_forks();
    if (const int error = api.query_device(context_, &attributes_); error != 0)
        fail(operation::query_device, error, fmt::format("ask {} what it can do", name_));
}

device device::open(std::string_view name, const verbs_api& api) {
    const device_list all(api);
    for (ibv_device* each : all) {
        if (name != each->name) continue;
        ibv_context* context = api.open_device(each);
        if (context == nullptr) fail(operation::open_device, errno, fmt::format("open the RDMA device {}", name));
        return {handle<ibv_context, &verbs_api::close_device>(api, context), context, api};
    }
    fail(operation::open_device, ENODEV, fmt::format("find an RDMA device '{}' (there are: {})", name, all_names(api)));
}

device device::borrowed(ibv_context* context, const verbs_api& api) { return {{}, context, api}; }

device::found device::find_by_interface(const std::string& interface, const verbs_api& api) {
    const unsigned index = ::if_nametoindex(interface.c_str());
    std::exception_ptr refused; // what may not be opened may be another one's
    for (const std::string& name : device_names(api)) try {
        const device candidate = open(name, api);
        for (std::uint8_t port = 1; port <= candidate.limits().phys_port_cnt; ++port) {
            for (const port_address& each : candidate.addresses(port))
                if (index != 0 && each.interface == index) return {name, port};
        }
        // An interface that is down has no addresses yet, but its device's folder names it.
        std::error_code none;
        const std::filesystem::path folder = candidate.context()->device->ibdev_path;
        if (std::filesystem::exists(folder / "device" / "net" / interface, none)) return {name, 1};
    } catch (const std::system_error&) {
        if (!refused) refused = std::current_exception();
    }
    if (refused) std::rethrow_exception(refused);
    fail(operation::open_device, ENODEV,
         fmt::format("find an RDMA device behind the network interface '{}' (there are: {})", interface, all_names(api)));
}

ibv_port_attr device::port(std::uint8_t number) const {
    ibv_port_attr attributes{};
    if (const int error = api_->query_port(context_, number, &attributes); error != 0)
        fail(operation::query, error, fmt::format("ask {} about its port {}", name_, number));
    return attributes;
}

std::vector<port_address> device::addresses(std::uint8_t port) const {
    std::size_t room = 0;
    for (std::uint8_t p = 1; p <= limits().phys_port_cnt; ++p)
        room += static_cast<std::size_t>(std::max(0, this->port(p).gid_tbl_len));
    std::vector<ibv_gid_entry> entries(room);
    const std::ptrdiff_t count = api_->query_gid_table(context_, entries.data(), room);
    if (count < 0) fail(operation::list_addresses, static_cast<int>(-count), fmt::format("list the addresses (GIDs) of {}", name_));
    std::vector<port_address> all;
    for (const ibv_gid_entry& e : std::span(entries).first(static_cast<std::size_t>(count)))
        if (e.port_num == port)
            all.push_back({e.gid, e.gid_index, static_cast<ibv_gid_type>(e.gid_type), e.ndev_ifindex});
    return all;
}

std::string device::interface_of(std::uint8_t port) const {
    char name[IF_NAMESIZE] = {};
    for (const port_address& each : addresses(port))
        if (each.interface != 0 && ::if_indextoname(each.interface, name) != nullptr) return name;
    // One that is down has no addresses yet, but the device's folder names it, and that names the port.
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::path(context_->device->ibdev_path) / "device" / "net";
    for (const auto& each : std::filesystem::directory_iterator(folder, none)) {
        int number = 0;
        std::ifstream(each.path() / "dev_port") >> number;
        if (number + 1 == port) return each.path().filename();
    }
    return {};
}

port_address device::address_for(const net_address& ours, std::uint8_t port) const {
    const std::vector<port_address> all = addresses(port);
    const port_address* best = nullptr;
    for (const port_address& each : all)
        if (each.as_ip() == ours && (best == nullptr || each.type == IBV_GID_TYPE_ROCE_V2)) best = &each;
    if (best != nullptr) return *best;
    std::string list;
    for (const port_address& each : all) list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", each.index, to_string(each.gid));
    fail(operation::query, ENOENT,
         fmt::format("find the address {} on port {} of {} (it has {})", wire::to_string(ours), port, name_,
                     list.empty() ? "none" : list));
}

std::uint16_t device::partition(unsigned index, std::uint8_t port) const {
    __be16 key = 0;
    if (const int error = api_->query_pkey(context_, port, static_cast<int>(index), &key); error != 0)
        fail(operation::query, error > 0 ? error : errno, fmt::format("read partition {} of port {} of {}", index, port, name_));
    return ntohs(key);
}

} // namespace corewire::verbs
