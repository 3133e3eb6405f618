// cw-verbs-check on NICs that can everything, some things, and nothing.
#include "tests/rdma/support.hh"
#include "tools/verbs-check/checks.hh"

using namespace corewire;
namespace checks = corewire::verbs_check;
using checks::verdict;

namespace {

unsigned count(const checks::report& r, verdict v) {
    unsigned n = 0;
    for (const auto& f : r.findings) n += f.how == v;
    return n;
}

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_check)

BOOST_AUTO_TEST_CASE(a_nic_that_can_everything_passes_and_nothing_is_left) {
    fake::nic nic({.addresses = {ipv4(10, 0, 0, 1)}});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(r.usable());
    BOOST_TEST(r.findings.size() == 19u);
    BOOST_TEST_MESSAGE(checks::as_text(r));
    BOOST_TEST(count(r, verdict::works) == r.findings.size());
    BOOST_TEST(test::mentions(checks::as_text(r), "Everything that --net=verbs needs works here."));
    BOOST_TEST(test::mentions(checks::as_json(r), "\"usable\": true"));
    BOOST_TEST(nic.live_objects() == 0u);
    BOOST_TEST(nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_plain_nic_lacks_things_and_is_usable) {
    fake::nic nic({.checksums = false, .segmentation = false, .spreading = false, .extended_sends = false,
                   .extended_completions = false, .thread_domains = false});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(r.usable());
    BOOST_TEST(count(r, verdict::lacking) == 5u);
}

BOOST_AUTO_TEST_CASE(a_missing_right_is_a_failure_that_says_what_to_do) {
    fake::nic nic({.may_send_raw = false});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(!r.usable());
    BOOST_TEST(test::mentions(checks::as_text(r), "CAP_NET_RAW"));
}

BOOST_AUTO_TEST_CASE(failing_sends_and_a_link_that_is_down_are_found) {
    fake::nic nic;
    nic.fail_sends(IBV_WC_LOC_PROT_ERR);
    BOOST_TEST(!checks::examine("fake0", 1, fake::api()).usable());
    nic.set_link(false);
    BOOST_TEST(test::mentions(checks::as_text(checks::examine("fake0", 1, fake::api())), "plug in a cable"));
}

BOOST_AUTO_TEST_SUITE_END()
