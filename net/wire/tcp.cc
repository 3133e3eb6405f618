#include <corewire/net/wire/tcp.hh>

#include <ostream>

namespace corewire::wire {

std::string to_string(tcp_flags flags) {
    static constexpr const char* names[] = {"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE"};
    std::string out;
    for (unsigned bit = 0; bit < 9; ++bit) {
        if (!has(flags, static_cast<tcp_flags>(1u << bit))) continue;
        if (!out.empty()) out += '|';
        out += names[bit];
    }
    return out.empty() ? "none" : out;
}

std::ostream& operator<<(std::ostream& out, tcp_flags flags) { return out << to_string(flags); }

} // namespace corewire::wire
