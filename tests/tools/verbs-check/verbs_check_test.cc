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

/// The finding whose name begins so.
const checks::finding& of(const checks::report& r, std::string_view what) {
    for (const auto& f : r.findings)
        if (f.what.starts_with(what)) return f;
    throw std::runtime_error("no check of: " + std::string(what));
}

/// What a NIC that is like this gets for it.
checks::finding found(fake::nic_options options, std::string_view what) {
    const fake::nic nic(std::move(options));
    return of(checks::examine("fake0", 1, fake::api()), what);
}

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_check)

BOOST_AUTO_TEST_CASE(a_nic_that_can_everything_passes_and_nothing_is_left) {
    fake::nic nic({.addresses = {ipv4(10, 0, 0, 1)}});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(r.usable());
    BOOST_TEST(r.findings.size() == 31u);
    BOOST_TEST_MESSAGE(checks::as_text(r));
    BOOST_TEST(count(r, verdict::works) == r.findings.size());
    BOOST_TEST(test::mentions(checks::as_text(r), "Everything that --net=verbs needs works here."));
    BOOST_TEST(test::mentions(checks::as_json(r), "\"usable\": true"));
    BOOST_TEST(nic.live_objects() == 0u);
    BOOST_TEST(nic.violations().empty());
    BOOST_TEST(test::mentions(of(r, "checksums of what is sent").detail, "IPv4 and IPv6"));
    BOOST_TEST(test::mentions(of(r, "a large segment").detail, "3 segments"));
    BOOST_TEST(test::mentions(checks::as_text(r), "fork               safe"));
    BOOST_TEST(test::mentions(of(r, "flows spread").detail, "not judged")); // as on mlx5
}

BOOST_AUTO_TEST_CASE(where_no_frame_comes_back_it_is_said_what_is_not_proved) {
    const fake::nic nic({.loopback = false});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(r.usable());
    BOOST_TEST(count(r, verdict::unproved) == 11u);
    BOOST_TEST(test::mentions(of(r, "a frame of our own").detail, "between two hosts only"));
    BOOST_TEST(test::mentions(checks::as_text(r), "not all of it is proved"));
    BOOST_TEST(test::mentions(checks::as_json(r), "\"unproved\""));
}

BOOST_AUTO_TEST_CASE(each_thing_that_frames_show_to_be_missing_is_said_with_its_remedy) {
    const auto says = [](fake::nic_options options, std::string_view what, verdict how, std::string_view why) {
        const checks::finding f = found(std::move(options), what);
        BOOST_TEST((f.how == how), f.what << " is " << static_cast<int>(f.how));
        BOOST_TEST(test::mentions(f.detail, why), f.what << ": " << f.detail);
    };
    says({.checksums = false}, "checksums of what is sent", verdict::lacking, "the stack does");
    says({.checksums = false}, "checksums of what arrives", verdict::lacking, "the stack checks them itself");
    says({.segmentation = false}, "a large segment", verdict::lacking, "the stack cuts its segments itself");
    says({.spreading = false}, "flows spread", verdict::lacking, "use one core");
    says({.spread_verdicts = true}, "flows spread", verdict::works, "checksums judged");
    says({.moderation = false}, "events moderated", verdict::lacking, "leave --moderation-us out");
    says({.keeps_tags = false}, "a VLAN's frames", verdict::lacking, "rxvlan off");
    says({.mtu = 1000}, "a frame as long", verdict::fails, "ip link set IFNAME mtu");
    says({.max_rules = 4}, "a connection's and a port's", verdict::lacking, "--shared needs it");
}

BOOST_AUTO_TEST_CASE(lost_events_and_memory_that_may_not_be_locked_are_found) {
    fake::nic nic;
    nic.fail_calls("reg_mr", ENOMEM, 1);
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(!r.usable());
    BOOST_TEST(test::mentions(of(r, "memory: 8 MiB").detail, "ulimit -l"));
    nic.lose_events(1000);
    const auto lost = checks::examine("fake0", 1, fake::api());
    BOOST_TEST((of(lost, "a sleeper woken").how == verdict::fails));
    BOOST_TEST(test::mentions(of(lost, "a sleeper woken").detail, "interrupts"));
}

BOOST_AUTO_TEST_CASE(a_plain_nic_lacks_things_and_is_usable) {
    fake::nic nic({.checksums = false, .segmentation = false, .spreading = false, .extended_sends = false,
                   .extended_completions = false, .thread_domains = false});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(r.usable());
    BOOST_TEST(count(r, verdict::lacking) == 7u);
}

BOOST_AUTO_TEST_CASE(a_missing_right_is_a_failure_that_says_what_to_do) {
    fake::nic nic({.may_send_raw = false});
    const auto r = checks::examine("fake0", 1, fake::api());
    BOOST_TEST(!r.usable());
    BOOST_TEST(test::mentions(checks::as_text(r), "CAP_NET_RAW"));
}

BOOST_AUTO_TEST_CASE(a_port_that_the_device_does_not_have_is_refused) {
    fake::nic nic;
    for (const std::uint8_t port : {0, 2})
        BOOST_TEST(test::mentions(test::sentence_of([&] { checks::examine("fake0", port, fake::api()); }),
                                  "examine port " + std::to_string(port) + " of fake0: its ports are 1"));
}

BOOST_AUTO_TEST_CASE(a_device_that_forgets_its_rules_with_a_reset_is_found) {
    const checks::finding f = found({.forgetful = true}, "flow rules kept");
    BOOST_TEST((f.how == verdict::fails));
    BOOST_TEST(test::mentions(f.detail, "forgets its flow rules"));
}

BOOST_AUTO_TEST_CASE(failing_sends_and_a_link_that_is_down_are_found) {
    fake::nic nic;
    nic.fail_sends(IBV_WC_LOC_PROT_ERR);
    BOOST_TEST(!checks::examine("fake0", 1, fake::api()).usable());
    nic.set_link(false);
    BOOST_TEST(test::mentions(checks::as_text(checks::examine("fake0", 1, fake::api())), "plug in a cable"));
}

BOOST_AUTO_TEST_SUITE_END()
