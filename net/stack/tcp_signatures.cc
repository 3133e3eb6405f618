// What is asked of segments before anything else, where it is asked: that they have no signature (RFC 2385, RFC 5925), as there are no keys
// here, and that they have come from near (RFC 5082).
#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

namespace {

constexpr std::size_t md5_size = 18; ///< of the option (RFC 2385 3.0)

/// Linux's habit (RFC 2385 2.0, and as it reads both kinds of signature): a segment whose MD5 signature no key of ours can check is
/// dropped, and one with a broken option of that kind, or of TCP-AO's (RFC 5925), or with two. TCP-AO's alone is overlooked.
bool has_bad_signature(byte_span options) noexcept {
    constexpr std::uint8_t end = 0, no_operation = 1, md5 = 19, authentication = 29;
    bool is_md5 = false, found = false;
    while (options.size() >= md5_size) {
        const std::uint8_t kind = load_u8(options.data());
        if (kind == end) break;
        const std::size_t size = kind == no_operation ? 1 : load_u8(options.data() + 1);
        if (size > options.size() || (kind != no_operation && size < 2)) return true;
        if (kind == md5 || kind == authentication) {
            if (found || (kind == md5 ? size != md5_size : size <= 4)) return true;
            found = true;
            is_md5 = kind == md5;
        }
        options = options.subspan(size);
    }
    return is_md5;
}

} // namespace

bool tcp_layer::is_from_too_far(const flow_name& flow, unsigned hops_left) {
    if (!judges_hops_) return false;
    const auto least = [&](const tcp::parameters& p) -> unsigned { return flow.is_v4() ? p.least_time_to_live : p.least_hop_limit; };
    if (const tcp_connection* const c = find(flow)) {
        // Linux's requests and TIME-WAIT do not ask.
        if (c->half_open_ || c->tcb.state() == tcp::tcp_state::time_wait) return false;
        return hops_left < least(c->tcb.options());
    }
    const tcp_listen_socket* const listener = listener_for(flow);
    return listener != nullptr && hops_left < least(parameters_for(listener->options().stream, flow.remote, listener->tuning()));
}

/// False: it is dropped, and counted.
template <typename Address>
bool tcp_layer::stands_a_closer_look(const Address& source, const Address& destination, const wire::tcp_view& view, unsigned hops_left) {
    const bool may_be_signed = view.options().size() >= md5_size && config_.tcp.like_linux();
    if (!may_be_signed && !judges_hops_) return true;
    const flow_name flow(destination, source, view.destination_port(), view.source_port());
    if (may_be_signed && has_bad_signature(view.options())) { // TIME-WAIT answers without looking
        const tcp_connection* const c = find(flow);
        if (c == nullptr || c->tcb.state() != tcp::tcp_state::time_wait) {
            ++statistics_.tcp_signed;
            return false;
        }
    }
    if (!judges_hops_) return true;
    const bool near = !is_from_too_far(flow, hops_left);
    if (!near) ++statistics_.tcp_too_far;
    return near;
}

template bool tcp_layer::stands_a_closer_look(const ipv4&, const ipv4&, const wire::tcp_view&, unsigned);
template bool tcp_layer::stands_a_closer_look(const net_address&, const net_address&, const wire::tcp_view&, unsigned);

} // namespace corewire
