// HOST:PORT as users write it.
#include <corewire/net/resolve/named_address.hh>

#include <boost/test/unit_test.hpp>

using corewire::named_address;

BOOST_AUTO_TEST_SUITE(named_addresses)

BOOST_AUTO_TEST_CASE(names_and_addresses_are_taken) {
    const auto is = [](const char* text, const char* host, unsigned port) {
        const named_address a = named_address::parse(text);
        BOOST_TEST(a.host == host);
        BOOST_TEST(a.port == port);
    };
    is("www.example.com:80", "www.example.com", 80);
    is("localhost:7", "localhost", 7);
    is("7up.example.:7", "7up.example.", 7);
    is("192.0.2.1:65535", "192.0.2.1", 65535);
    is("[2001:db8::1]:7", "2001:db8::1", 7);
}

BOOST_AUTO_TEST_CASE(mistakes_are_refused) {
    for (const char* bad : {"", ":", "host", "host:", ":80", "host:x", "host:65536", "192.0.2.256:7", "192.0.2:7", "2001:db8::1:7",
                            "-a.b:7", "a b:7", "a/b:7", "h\303\266st:7", "[host]:7"})
        BOOST_CHECK_THROW(named_address::parse(bad), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
