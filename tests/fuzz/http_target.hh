// Takes any bytes as what a peer of the metrics endpoint has sent, in pieces that the bytes themselves decide, and asserts
// what must hold. For tools/fuzz and for tests/apps/inspection/http_request_test.cc.
#pragma once

#include <corewire/apps/runtime/inspection/http_request.hh>
#include <corewire/reactor/base/assert.hh>

#include <algorithm>
#include <string_view>

namespace http_fuzz {

inline void head(std::string_view bytes) {
    using verdict = corewire::http_request_reader::verdict;
    corewire::http_request_reader reader;
    corewire::http_request request;
    std::size_t piece = bytes.empty() ? 1 : static_cast<unsigned char>(bytes.front()) % 64 + 1;
    while (!bytes.empty()) {
        reader.append(bytes.substr(0, piece));
        bytes.remove_prefix(std::min(piece, bytes.size()));
        piece = piece * 5 % 61 + 1;
        for (;;) {
            const verdict v = reader.parse(request);
            CW_ASSERT((v == verdict::refused) == (reader.status() != corewire::http_status::none), "a refusal has a status");
            if (v == verdict::refused) {
                CW_ASSERT(!corewire::reason_of(reader.status()).empty(), "a status has a reason");
                CW_ASSERT(reader.parse(request) == verdict::refused, "once refused, always refused");
                return;
            }
            if (v == verdict::more) break;
            CW_ASSERT(request.path.starts_with('/') && request.path.size() <= corewire::http_request_reader::max_path &&
                          std::all_of(request.path.begin(), request.path.end(), [](char c) { return c > ' ' && c <= '~' && c != '?'; }),
                      "a path that may be compared and printed");
        }
    }
}

} // namespace http_fuzz
