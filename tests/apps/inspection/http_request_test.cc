// Heads of HTTP requests: what is taken, what is refused and with which status, whole or byte by byte.
#include "tests/fuzz/http_target.hh"

#include <corewire/apps/runtime/inspection/http_request.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace corewire;

namespace {

struct outcome {
    http_request_reader::verdict verdict;
    unsigned status;
    corewire::http_request request;
};

outcome parse(std::string_view bytes, std::size_t piece = SIZE_MAX) {
    http_request_reader reader;
    outcome out{http_request_reader::verdict::more, 0, {}};
    while (!bytes.empty() && out.verdict == http_request_reader::verdict::more) {
        reader.append(bytes.substr(0, piece));
        bytes.remove_prefix(std::min(piece, bytes.size()));
        out.verdict = reader.parse(out.request);
    }
    out.status = static_cast<unsigned>(reader.status());
    return out;
}

std::string with(std::string_view fields) { return "GET /metrics HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n"; }

/// As Prometheus sends it.
const std::string scrape = "GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9100\r\nUser-Agent: Prometheus/2.42.0\r\n"
                           "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n"
                           "X-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n";

} // namespace

BOOST_AUTO_TEST_SUITE(http_request)

BOOST_AUTO_TEST_CASE(a_scrape_of_prometheus_is_taken_whole_or_byte_by_byte) {
    for (const std::size_t piece : {SIZE_MAX, std::size_t{1}, std::size_t{7}}) {
        const outcome o = parse(scrape, piece);
        BOOST_TEST((o.verdict == http_request_reader::verdict::done));
        BOOST_TEST((o.request.method == http_method::get));
        BOOST_TEST(o.request.path == "/metrics");
        BOOST_TEST(o.request.keep_alive);
    }
}

BOOST_AUTO_TEST_CASE(a_head_that_is_not_complete_waits_for_more) {
    for (std::size_t size = 1; size < scrape.size(); ++size)
        BOOST_TEST((parse(scrape.substr(0, size)).verdict == http_request_reader::verdict::more));
}

BOOST_AUTO_TEST_CASE(requests_in_one_piece_are_taken_one_after_the_other) {
    http_request_reader reader;
    corewire::http_request request;
    reader.append("\r\nHEAD / HTTP/1.0\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\nGET");
    BOOST_TEST((reader.parse(request) == http_request_reader::verdict::done));
    BOOST_TEST((request.method == http_method::head));
    BOOST_TEST(!request.keep_alive);
    BOOST_TEST((reader.parse(request) == http_request_reader::verdict::done));
    BOOST_TEST(request.path == "/b");
    BOOST_TEST(!request.keep_alive);
    BOOST_TEST((reader.parse(request) == http_request_reader::verdict::more));
    BOOST_TEST(!reader.empty());
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_is_refused_with_its_status) {
    struct row {
        std::string bytes;
        unsigned status;
    };
    const std::string host = "Host: a\r\n\r\n";
    const std::vector<row> rows{
        {"GET / HTTP/1.1\r\n\r\n", 400},                                   // no Host
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},             // two
        {"GET /\r\n" + host, 400},                                         // HTTP/0.9
        {"GET  HTTP/1.1\r\n" + host, 400},                                 // no target
        {"GET / HTTP/2.0\r\n" + host, 505},
        {"GET / HTTP/1.9\r\n" + host, 505},
        {"GET / http/1.1\r\n" + host, 400},
        {"G\xc3\xa9T / HTTP/1.1\r\n" + host, 400},
        {"GET metrics HTTP/1.1\r\n" + host, 400},                          // no path
        {"GET http://a/metrics HTTP/1.1\r\n" + host, 400},                 // a proxy's
        {"GET /a b HTTP/1.1\r\n" + host, 400},
        {"GET /\x01 HTTP/1.1\r\n" + host, 400},
        {"GET /" + std::string(http_request_reader::max_path, 'a') + " HTTP/1.1\r\n" + host, 414},
        {with("No colon\r\n"), 400},
        {with("Bad name: x\r\n"), 400},
        {with("A: b\r\n folded\r\n"), 400},
        {with("A: b\nC: d\r\n"), 400},                                     // a bare LF
        {with("A: b\rC: d\r\n"), 400},                                     // a bare CR
        {with(std::string("A: \0\r\n", 6)), 400},
        {with("Content-Length: 5\r\n"), 413},
        {with("Content-Length: -1\r\n"), 413},
        {with("Transfer-Encoding: chunked\r\n"), 413},
        {"\r\n\r\n\r\n", 400},
    };
    for (const row& r : rows) {
        BOOST_TEST_CONTEXT(r.bytes.substr(0, 60)) {
            for (const std::size_t piece : {SIZE_MAX, std::size_t{1}}) {
                const outcome o = parse(r.bytes, piece);
                BOOST_TEST((o.verdict == http_request_reader::verdict::refused));
                BOOST_TEST(o.status == r.status);
            }
        }
    }
    BOOST_TEST((parse(with("Content-Length: 0\r\n")).verdict == http_request_reader::verdict::done));
}

BOOST_AUTO_TEST_CASE(a_head_has_a_largest_size_and_a_largest_number_of_fields) {
    const std::string long_field = "A: " + std::string(http_request_reader::max_head, 'x') + "\r\n";
    for (const std::size_t piece : {SIZE_MAX, std::size_t{1}, std::size_t{4096}})
        BOOST_TEST(parse(with(long_field), piece).status == 431u);
    std::string fields;
    for (std::size_t i = 0; i + 1 < http_request_reader::max_fields; ++i) fields += "A: b\r\n";
    BOOST_TEST((parse(with(fields)).verdict == http_request_reader::verdict::done));
    BOOST_TEST(parse(with(fields + "A: b\r\n")).status == 431u);
}

BOOST_AUTO_TEST_CASE(heads_cut_and_changed_at_random_break_nothing) {
    const std::uint64_t seed = 9100;
    BOOST_TEST_MESSAGE("seed " << seed);
    random_generator random(seed);
    const std::string seeds[] = {scrape, with("Connection: close\r\n"), "HEAD / HTTP/1.0\r\n\r\n" + scrape};
    for (int round = 0; round < 100'000; ++round) {
        std::string bytes = seeds[random.below(3)];
        for (std::uint64_t n = random.below(6); n != 0; --n) {
            const std::size_t at = random.below(bytes.size());
            switch (random.below(3)) {
            case 0: bytes[at] = static_cast<char>(random.below(256)); break;
            case 1: bytes.erase(at, random.below(8) + 1); break;
            default: bytes.insert(at, "\r\n"); break;
            }
            if (bytes.empty()) bytes = "G";
        }
        http_fuzz::head(bytes);
    }
}

BOOST_AUTO_TEST_SUITE_END()
