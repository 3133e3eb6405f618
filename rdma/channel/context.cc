#include <corewire/rdma/channel/context.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace corewire::rdma {

adapter& context::adapter_of(ibv_context* opened) {
    const auto known = std::ranges::find_if(adapters_, [&](const auto& a) { return a->device().context() == opened; });
    if (known != adapters_.end()) return **known;
    return *adapters_.emplace_back(std::make_unique<adapter>(opened, reactor_, options_.completions, options_.memory, *options_.verbs));
}

adapter& context::adapter_for(ipv4 ours) {
    rdma_cm_id* id = nullptr;
    if (cm().create_id(events_.get(), &id, nullptr, RDMA_PS_TCP) != 0)
        verbs::fail(verbs::operation::manage_connection, errno, "make an rdma_cm id");
    socket_name name(socket_address(ours, 0));
    const int error = cm().bind_addr(id, &name.any) == 0 ? 0 : errno;
    ibv_context* const opened = id->verbs; // librdmacm keeps it open
    cm().destroy_id(id);
    if (error != 0 || opened == nullptr)
        verbs::fail(verbs::operation::manage_connection, error == 0 ? ENODEV : error, "find the RDMA device of an address");
    return adapter_of(opened);
}

socket_name::socket_name(const socket_address& a) noexcept {
    std::memset(this, 0, sizeof *this);
    if (const auto* four = std::get_if<ipv4>(&a.address)) {
        v4.sin_family = AF_INET;
        v4.sin_port = host_to_be(a.port);
        v4.sin_addr.s_addr = host_to_be(four->value());
    } else {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = host_to_be(a.port);
        std::get<ipv6>(a.address).store(reinterpret_cast<std::byte*>(&v6.sin6_addr));
    }
}

} // namespace corewire::rdma
