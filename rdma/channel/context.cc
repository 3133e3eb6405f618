#include <corewire/rdma/channel/context.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace corewire::rdma {

cm_events& context::events() {
    if (!events_) events_ = std::make_unique<cm_events>(reactor_, *options_.cm);
    return *events_;
}

context::~context() {
    if (waits_) waits_->finish_all(); // what was left while it waited goes now
}

verbs::waiting_calls& context::waits() {
    if (!waits_) {
        waits_ = std::make_unique<verbs::waiting_calls>();
        reactor_.add_poller(*waits_);
    }
    return *waits_;
}

adapter& context::adapter_on(std::string_view device) {
    const auto there = std::ranges::find_if(adapters_, [&](const auto& a) { return a->device().name() == device && !a->failed(); });
    if (there != adapters_.end()) return **there;
    return make(verbs::device::open(device, *options_.verbs), {});
}

adapter* context::known(const ibv_context* opened) const {
    const auto of_it = [&](const auto& a) { return a->device().context() == opened && (!a->failed() || a->gone()); };
    const auto found = std::ranges::find_if(adapters_, of_it);
    if (found == adapters_.end()) return nullptr;
    if ((*found)->gone()) verbs::fail(verbs::operation::open_device, ENODEV, "use " + (*found)->device().name() + ", which has gone");
    return found->get();
}

adapter& context::make(verbs::device on, owned_cm_id held) {
    return *adapters_.emplace_back(std::make_unique<adapter>(*this, std::move(on), options_, std::move(held)));
}

/// An id that stands on the device of an address of ours.
owned_cm_id context::bound_to(sockaddr& ours) {
    rdma_cm_id* id = nullptr;
    if (cm().create_id(events().get(), &id, nullptr, RDMA_PS_TCP) != 0)
        verbs::fail(verbs::operation::manage_connection, errno, "make an rdma_cm id");
    owned_cm_id out(id, cm());
    const int error = cm().bind_addr(id, &ours) == 0 ? 0 : errno;
    if (error != 0 || id->verbs == nullptr)
        verbs::fail(verbs::operation::manage_connection, error == 0 ? ENODEV : error,
                    "find the RDMA device of " + to_string(address_in(ours).net()));
    return out;
}

/// librdmacm closes a device that was removed when no id stands on it and it looks for another one. So the adapter has one of its own.
adapter& context::adapter_of(const rdma_cm_id& id) {
    if (adapter* const there = known(id.verbs); there != nullptr) return *there;
    sockaddr_storage ours = id.route.addr.src_storage;
    auto* const name = reinterpret_cast<sockaddr*>(&ours);
    if (name->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(name)->sin6_port = 0; // any
    else reinterpret_cast<sockaddr_in*>(name)->sin_port = 0;
    owned_cm_id held = bound_to(*name);
    if (held->verbs != id.verbs)
        verbs::fail(verbs::operation::manage_connection, ENODEV, "hold the RDMA device of " + to_string(address_in(*name).net()));
    return make(verbs::device::borrowed(id.verbs, *options_.verbs), std::move(held));
}

context::place context::place_of(const ip_address& ours) {
    socket_address at;
    at.address = ours;
    socket_name name(at);
    owned_cm_id held = bound_to(name.any);
    const std::uint8_t port = held->port_num;
    if (adapter* const there = known(held->verbs); there != nullptr) return {*there, port};
    verbs::device on = verbs::device::borrowed(held->verbs, *options_.verbs);
    return {make(std::move(on), std::move(held)), port};
}

void context::drop(const adapter& gone) noexcept {
    std::erase_if(adapters_, [&](const auto& a) { return a.get() == &gone; });
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

socket_address address_in(const sockaddr& name) noexcept {
    if (name.sa_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(name);
        return {ipv6::load(reinterpret_cast<const std::byte*>(&six.sin6_addr)), host_to_be(six.sin6_port)};
    }
    if (name.sa_family != AF_INET) return {};
    const auto& four = reinterpret_cast<const sockaddr_in&>(name);
    return {ipv4(host_to_be(four.sin_addr.s_addr)), host_to_be(four.sin_port)};
}

} // namespace corewire::rdma
