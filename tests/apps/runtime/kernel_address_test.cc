// --shared: which of the kernel's addresses are ours too, named and not.
#include <corewire/apps/runtime/kernel_address.hh>
#include <corewire/apps/runtime/setup_error.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;
using netlink::address_change;

namespace {

net_address at(const char* text) {
    if (const auto four = ipv4::parse(text)) return *four;
    return *ipv6::parse(text);
}

address_change has(const char* address, std::uint8_t length) {
    address_change a;
    a.address = netlink::prefix(at(address), length);
    return a;
}

address_change deprecated(address_change a) {
    a.usable = false;
    return a;
}
address_change tentative(address_change a) {
    a.usable = a.proven = false;
    return a;
}
address_change temporary(address_change a) {
    a.secondary = true;
    return a;
}

const std::vector<address_change> known{has("192.0.2.1", 24),
                                        has("192.0.2.2", 24),
                                        has("fe80::1", 64),
                                        tentative(has("2001:db8::7", 64)),
                                        temporary(has("2001:db8::8", 64)),
                                        deprecated(has("2001:db8::9", 128)),
                                        has("2001:db8::10", 64)};

std::string refusal(const char* address) {
    try {
        named_address(known, at(address), "eth0");
    } catch (const setup_error& error) {
        return error.what();
    }
    return "";
}

} // namespace

BOOST_AUTO_TEST_SUITE(kernel_address)

BOOST_AUTO_TEST_CASE(unnamed_it_is_the_first_that_new_connections_may_have) {
    BOOST_TEST((first_address(known, true) == netlink::prefix(at("192.0.2.1"), 24)));
    BOOST_TEST((first_address(known, false) == netlink::prefix(at("2001:db8::10"), 64)));
    BOOST_TEST(!first_address(std::span(known).first(6), false).has_value());
    BOOST_TEST(!first_address({}, true).has_value());
}

BOOST_AUTO_TEST_CASE(named_it_is_any_that_the_kernel_receives_on) { // RFC 4862 5.5.4: a deprecated one, too
    for (const auto& [address, length] : {std::pair{"192.0.2.2", 24}, {"2001:db8::8", 64}, {"2001:db8::9", 128}}) {
        const netlink::prefix found = named_address(known, at(address), "eth0");
        BOOST_TEST((found == netlink::prefix(at(address), static_cast<std::uint8_t>(length))));
    }
}

BOOST_AUTO_TEST_CASE(why_it_is_not_taken_is_said) {
    BOOST_TEST(refusal("2001:db8::99") == "--shared: the kernel does not have 2001:db8::99 on eth0: leave --address out, or --shared");
    BOOST_TEST(refusal("2001:db8::7") == "--shared: the kernel does not use 2001:db8::7 yet, or another host has it: "
                                         "`ip address show dev eth0` says tentative, or dadfailed");
}

BOOST_AUTO_TEST_SUITE_END()
