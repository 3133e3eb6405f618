#include <corewire/net/tcp/tcp_state.hh>

#include <array>

namespace corewire::tcp {

std::string_view name_of(tcp_state s) noexcept {
    constexpr std::array<std::string_view, tcp_state_count> names{
        "CLOSED",     "LISTEN",     "SYN-SENT", "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
        "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING",  "LAST-ACK",     "TIME-WAIT",
    };
    return names[static_cast<std::size_t>(s)];
}

} // namespace corewire::tcp
