// Segments with a signature (RFC 2385, RFC 5925): there are no keys here.
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

/// TIME-WAIT answers without looking.
template <typename Address>
bool tcp_layer::is_for_another_key(const Address& source, const Address& destination, const wire::tcp_view& view) {
    if (!has_bad_signature(view.options())) return false;
    const tcp_connection* const c = find(flow_name(destination, source, view.destination_port(), view.source_port()));
    return c == nullptr || c->tcb.state() != tcp::tcp_state::time_wait;
}

template bool tcp_layer::is_for_another_key(const ipv4&, const ipv4&, const wire::tcp_view&);
template bool tcp_layer::is_for_another_key(const net_address&, const net_address&, const wire::tcp_view&);

} // namespace corewire
