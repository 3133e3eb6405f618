#include <corewire/net/tcp/lifecycle.hh>

#include <array>

namespace corewire::tcp {

namespace {

using enum tcp_state;

struct row {
    tcp_state from;
    std::array<tcp_state, transition_count> to;
};

// RFC 9293 figure 5. A state in its own column stays.
//                   SYN           our SYN acked  FIN sent     FIN acked    FIN received  2 MSL    aborted
constexpr std::array<row, tcp_state_count> table{{
    {closed,       {closed,        closed,        closed,      closed,      closed,       closed,  closed}},
    {listen,       {syn_received,  listen,        closed,      listen,      listen,       listen,  closed}},
    {syn_sent,     {syn_received,  established,   closed,      syn_sent,    syn_sent,     syn_sent, closed}},
    {syn_received, {syn_received,  established,   fin_wait_1,  syn_received, close_wait,  syn_received, closed}},
    {established,  {established,   established,   fin_wait_1,  established, close_wait,   established, closed}},
    {fin_wait_1,   {fin_wait_1,    fin_wait_1,    fin_wait_1,  fin_wait_2,  closing,      fin_wait_1, closed}},
    {fin_wait_2,   {fin_wait_2,    fin_wait_2,    fin_wait_2,  fin_wait_2,  time_wait,    closed,  closed}},
    {close_wait,   {close_wait,    close_wait,    last_ack,    close_wait,  close_wait,   close_wait, closed}},
    {closing,      {closing,       closing,       closing,     time_wait,   closing,      closing, closed}},
    {last_ack,     {last_ack,      last_ack,      last_ack,    closed,      last_ack,     last_ack, closed}},
    {time_wait,    {time_wait,     time_wait,     time_wait,   time_wait,   time_wait,    closed,  closed}},
}};

} // namespace

tcp_state next_state(tcp_state from, transition t) noexcept {
    return table[static_cast<std::size_t>(from)].to[static_cast<std::size_t>(t)];
}

} // namespace corewire::tcp
