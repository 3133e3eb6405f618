// The local ports of connections in shared mode: those that the kernel does not choose from, and some of the others.
#include <corewire/net/port/lent_ports.hh>
#include <corewire/net/tcp/open/port_selection.hh>

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>

using namespace corewire;

namespace {

/// Ports of the kernel's that are lent.
std::set<unsigned> taken_of(const corewire::lent_ports& lent, const port_range& kernels) {
    std::set<unsigned> out;
    for (unsigned port = kernels.first; port <= kernels.last; ++port)
        if (lent.contains(static_cast<std::uint16_t>(port))) out.insert(port);
    return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(lent_ports)

BOOST_AUTO_TEST_CASE(they_are_ports_that_are_chosen_from) {
    BOOST_TEST(corewire::lent_ports::first == tcp::port_selector::first);
}

BOOST_AUTO_TEST_CASE(all_that_the_kernel_does_not_choose_and_as_many_of_the_others_as_make_enough) {
    const port_range kernels;
    const corewire::lent_ports lent(kernels);
    for (unsigned port = 61'000; port < 65'536; ++port) BOOST_REQUIRE(lent.contains(static_cast<std::uint16_t>(port)));
    BOOST_TEST(lent.count() == corewire::lent_ports::enough);
    BOOST_TEST(taken_of(lent, kernels).size() == corewire::lent_ports::enough - (65'536 - 61'000));
    BOOST_TEST((!lent.contains(0) && !lent.contains(1024) && !lent.contains(32'767)));
}

BOOST_AUTO_TEST_CASE(the_kernel_keeps_half_of_its_own) {
    for (const port_range kernels : {port_range{1024, 65'535}, port_range{32'768, 65'535}, port_range{0, 65'535}}) {
        const corewire::lent_ports lent(kernels);
        BOOST_TEST(lent.count() == corewire::lent_ports::enough);
        BOOST_TEST(taken_of(lent, kernels).size() == 16'384u);
    }
    const port_range few{40'000, 40'003}, below{1024, 32'767};
    BOOST_TEST(taken_of(corewire::lent_ports(few), few).empty()); // there are enough without
    BOOST_TEST(corewire::lent_ports(below).count() == 32'768u);
}

BOOST_AUTO_TEST_CASE(which_of_the_kernels_nobody_can_know_beforehand) { // RFC 6056 3
    const port_range kernels;
    const std::set<unsigned> one = taken_of(corewire::lent_ports(kernels), kernels);
    const std::set<unsigned> other = taken_of(corewire::lent_ports(kernels), kernels);
    std::size_t in_both = 0;
    for (const unsigned port : one) in_both += other.contains(port);
    // 11,848 of 28,232: by chance 4,972 of one are in the other, 54 more or less.
    BOOST_TEST((in_both > 4'400u && in_both < 5'500u), in_both);
}

BOOST_AUTO_TEST_CASE(whatever_the_kernel_says_of_its_range_is_read_or_taken_for_the_usual_one) {
    BOOST_TEST((parse_port_range("32768\t60999\n") == port_range{32'768, 60'999}));
    BOOST_TEST((parse_port_range("  1024 65535") == port_range{1024, 65'535}));
    BOOST_TEST((parse_port_range("0\t0\n") == port_range{0, 0}));
    for (const std::string text : {"", "\n", "40000", "40000\n50000", "50000\t40000\n", "-1 5", "40000 70000", "40000 50000 60000",
                                   "40000\t50000x", "99999999999999999999 5", "all of them"})
        BOOST_TEST((parse_port_range(text) == port_range{}), text);
    BOOST_TEST((parse_port_range(std::string(64, '4')) == port_range{}));
}

BOOST_AUTO_TEST_CASE(what_is_reserved_for_services_is_not_lent) {
    const port_range kernels;
    const corewire::lent_ports lent(kernels, parse_port_list("8080,40000-40999,62000\n"));
    for (unsigned port = 40'000; port < 41'000; ++port) BOOST_REQUIRE(!lent.contains(static_cast<std::uint16_t>(port)));
    BOOST_TEST((!lent.contains(62'000) && lent.contains(62'001)));
    BOOST_TEST(lent.count() == corewire::lent_ports::enough); // others make up for them
    BOOST_TEST(corewire::lent_ports({32'768, 65'535}, parse_port_list("40000-40999")).count() == (32'768u - 1000) / 2);
    BOOST_TEST(corewire::lent_ports(kernels, parse_port_list("0-65535")).all().empty());
    BOOST_TEST(std::ranges::is_sorted(lent.all()));
}

BOOST_AUTO_TEST_CASE(whatever_the_kernel_says_is_reserved_is_read_as_far_as_it_makes_sense) {
    const auto size_of = [](std::string_view text) { return parse_port_list(text).count(); };
    BOOST_TEST(size_of("8080,9148-9150\n") == 4u);
    BOOST_TEST((parse_port_list("0,65535")[0] && parse_port_list("0,65535")[65'535]));
    for (const char* none : {"", "\n", "-", "-5", "x", " 8080", "65536", "99999999999999999999", "8080-", "8080-x", "8080-65536", ","})
        BOOST_TEST(size_of(none) == 0u, none);
    BOOST_TEST(size_of("9-8") == 0u);
    for (const char* one : {"8080,", "8080,,9", "8080 9", "8080x", "8080,x", "8080,9-", "8080-8080-9000"})
        BOOST_TEST(size_of(one) == 1u, one);
    BOOST_TEST(size_of("0-65535,0-65535") == 65'536u);
    BOOST_TEST(size_of(std::string_view("80809", 4)) == 1u); // no further than its end
    BOOST_TEST(parse_port_list(std::string_view("80809", 4))[8080]);
}

BOOST_AUTO_TEST_SUITE_END()
