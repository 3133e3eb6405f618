#include <corewire/apps/runtime/inspection/http_request.hh>

#include <algorithm>

namespace corewire {

namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

/// RFC 9110 5.6.2.
bool is_token(std::string_view text) noexcept {
    const auto token_character = [](char c) {
        return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
               std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
    };
    return !text.empty() && std::all_of(text.begin(), text.end(), token_character);
}

std::string_view trimmed(std::string_view text) noexcept {
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

/// Whether a comma-separated list has this element.
bool lists(std::string_view list, std::string_view element) noexcept {
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        if (equal_ignoring_case(trimmed(list.substr(0, comma)), element)) return true;
        list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
    }
    return false;
}

} // namespace

std::string_view reason_of(http_status status) noexcept {
    switch (status) {
    case http_status::none: break;
    case http_status::ok: return "OK";
    case http_status::bad_request: return "Bad Request";
    case http_status::not_found: return "Not Found";
    case http_status::method_not_allowed: return "Method Not Allowed";
    case http_status::request_timeout: return "Request Timeout";
    case http_status::content_too_large: return "Content Too Large";
    case http_status::uri_too_long: return "URI Too Long";
    case http_status::head_too_large: return "Request Header Fields Too Large";
    case http_status::service_unavailable: return "Service Unavailable";
    case http_status::version_not_supported: return "HTTP Version Not Supported";
    }
    return "";
}

void http_request_reader::append(std::string_view bytes) {
    const std::size_t room = max_head - std::min(max_head, bytes_.size());
    if (bytes.size() > room) too_large_ = true;
    bytes_.append(bytes.substr(0, room));
}

http_request_reader::verdict http_request_reader::refuse(http_status why) noexcept {
    status_ = why;
    return verdict::refused;
}

http_request_reader::verdict http_request_reader::parse(http_request& request) {
    if (status_ != http_status::none) return verdict::refused;
    // RFC 9112 2.2: empty lines before a request are ignored; here, one.
    if (!skipped_line_ && bytes_.starts_with("\r\n")) {
        bytes_.erase(0, 2);
        skipped_line_ = true;
    }
    const std::size_t end = bytes_.find("\r\n\r\n", searched_);
    if (end == bytes_.npos) {
        searched_ = bytes_.size() < 3 ? 0 : bytes_.size() - 3;
        return too_large_ || bytes_.size() >= max_head ? refuse(http_status::head_too_large) : verdict::more;
    }
    request = {};
    version_1_0_ = host_ = false;
    std::string_view head = std::string_view(bytes_).substr(0, end + 2);
    std::size_t fields = 0;
    for (bool first = true; !head.empty(); first = false) {
        const std::size_t line_end = head.find("\r\n");
        const std::string_view line = head.substr(0, line_end);
        head.remove_prefix(line_end + 2);
        // RFC 9110 5.5: a bare CR, LF or NUL makes the request invalid.
        if (line.find_first_of(std::string_view("\r\n\0", 3)) != line.npos) return refuse(http_status::bad_request);
        if (!first && ++fields > max_fields) return refuse(http_status::head_too_large);
        if (!(first ? parse_line(line, request) : parse_field(line, request))) return verdict::refused;
    }
    if (!host_ && !version_1_0_) return refuse(http_status::bad_request); // RFC 9112 3.2 (MUST)
    bytes_.erase(0, end + 4);
    searched_ = 0;
    skipped_line_ = false;
    return verdict::done;
}

/// METHOD SP TARGET SP HTTP/1.x (RFC 9112 3). False: status_ says why.
bool http_request_reader::parse_line(std::string_view line, http_request& request) {
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    const auto bad = [&](http_status why) { return refuse(why), false; };
    if (first == line.npos || last == first) return bad(http_status::bad_request);
    const std::string_view method = line.substr(0, first);
    std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    if (!is_token(method)) return bad(http_status::bad_request);
    if (version.size() != 8 || !version.starts_with("HTTP/")) return bad(http_status::bad_request);
    if (version != "HTTP/1.1" && version != "HTTP/1.0") return bad(http_status::version_not_supported);
    if (target.size() > max_path) return bad(http_status::uri_too_long);
    if (!target.starts_with('/') || std::any_of(target.begin(), target.end(), [](char c) { return c <= ' ' || c > '~'; }))
        return bad(http_status::bad_request);
    request.method = method == "GET" ? http_method::get : method == "HEAD" ? http_method::head : http_method::other;
    request.path = target.substr(0, target.find('?'));
    version_1_0_ = version == "HTTP/1.0";
    request.keep_alive = !version_1_0_;
    return true;
}

/// NAME ":" VALUE (RFC 9112 5). False: status_ says why.
bool http_request_reader::parse_field(std::string_view line, http_request& request) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon))) { // a folded line begins with a blank: obsolete, refused
        refuse(http_status::bad_request);
        return false;
    }
    const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    if (equal_ignoring_case(name, "Connection")) {
        if (lists(value, "close")) request.keep_alive = false;
    } else if (equal_ignoring_case(name, "Content-Length")) {
        if (value != "0") return refuse(http_status::content_too_large), false;
    } else if (equal_ignoring_case(name, "Transfer-Encoding")) {
        return refuse(http_status::content_too_large), false;
    } else if (equal_ignoring_case(name, "Host")) {
        if (host_) return refuse(http_status::bad_request), false; // RFC 9112 3.2: one only
        host_ = true;
    }
    return true;
}

} // namespace corewire
