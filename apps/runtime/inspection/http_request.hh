// The head of an HTTP request, as far as a page of metrics needs it (RFC 9112): hostile input.
//
//     bytes --append--> request_reader --parse()--> more | done | an error with its status code
//
// A reader of one connection. Bounds: max_head bytes of a head, at most max_fields fields. Requests with a body are refused:
// nothing here takes one. What is not understood is refused too, never guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace corewire {

enum class http_method : std::uint8_t { get, head, other };

struct http_request {
    http_method method = http_method::other;
    std::string path;        ///< without the query: "/metrics"
    bool keep_alive = false; ///< the peer may send another
};

/// What to answer to a head that is not taken; 0: go on.
enum class http_status : std::uint16_t {
    none = 0,
    ok = 200,
    bad_request = 400,
    not_found = 404,
    method_not_allowed = 405,
    request_timeout = 408,
    content_too_large = 413,
    uri_too_long = 414,
    head_too_large = 431,
    service_unavailable = 503,
    version_not_supported = 505,
};
std::string_view reason_of(http_status status) noexcept;

class http_request_reader {
public:
    static constexpr std::size_t max_head = 8192;
    static constexpr std::size_t max_path = 1024;
    static constexpr std::size_t max_fields = 64;

    enum class verdict : std::uint8_t {
        more,   ///< the head is not complete
        done,   ///< `request` is; bytes behind it are kept for the next
        refused ///< answer with status(), then close
    };

    /// Takes bytes from the network. They are kept up to max_head; more than that is refused by parse().
    void append(std::string_view bytes);
    verdict parse(http_request& request);
    http_status status() const noexcept { return status_; }
    bool empty() const noexcept { return bytes_.empty(); }

private:
    verdict refuse(http_status why) noexcept;
    bool parse_line(std::string_view line, http_request& request);
    bool parse_field(std::string_view line, http_request& request);

    std::string bytes_;
    std::size_t searched_ = 0; ///< no end of a head before this
    bool too_large_ = false;
    bool skipped_line_ = false; ///< the empty line that may stand before a request
    bool version_1_0_ = false;
    bool host_ = false;
    http_status status_ = http_status::none;
};

} // namespace corewire
