#include <corewire/reactor/log/escape.hh>

namespace corewire {

std::string escape_for_log(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string safe;
    safe.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        switch (c) {
        case '\n': safe += "\\n"; break;
        case '\r': safe += "\\r"; break;
        case '\t': safe += "\\t"; break;
        case '\\': safe += "\\\\"; break;
        default:
            if (byte >= 0x20 && byte < 0x7f) safe += c;
            else ((safe += "\\x") += digits[byte >> 4]) += digits[byte & 15];
        }
    }
    return safe;
}

} // namespace corewire
