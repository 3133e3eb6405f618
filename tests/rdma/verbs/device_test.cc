// Opening devices, their addresses, memory, and what is said when any of it fails.
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/error.hh>
#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include "tests/rdma/support.hh"

#include <net/if.h>
#include <optional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace corewire;
using namespace corewire::test;

BOOST_AUTO_TEST_SUITE(device)

BOOST_AUTO_TEST_CASE(devices_are_listed_and_opened_by_name) {
    fake::nic a({.name = "fake_a"}), b({.name = "fake_b"});
    const auto names = verbs::device_names(fake::api());
    BOOST_TEST(names.size() == 2u);
    const auto d = verbs::device::open("fake_b", fake::api());
    BOOST_TEST(d.name() == "fake_b");
    BOOST_TEST(d.limits().max_qp_wr == 8192);
    BOOST_TEST(d.port().state == IBV_PORT_ACTIVE);
}

BOOST_AUTO_TEST_CASE(an_unknown_device_is_named_together_with_those_there_are) {
    fake::nic a({.name = "fake_a"});
    const std::string said = sentence_of([] { verbs::device::open("mlx5_9", fake::api()); });
    BOOST_TEST(mentions(said, "'mlx5_9'"));
    BOOST_TEST(mentions(said, "fake_a"));
    BOOST_TEST(mentions(said, "ibv_devices"));
    a.fail_calls("open_device", EACCES);
    BOOST_TEST(mentions(sentence_of([] { verbs::device::open("fake_a", fake::api()); }), "/dev/infiniband"));
}

BOOST_AUTO_TEST_CASE(a_device_that_may_not_be_opened_hides_no_other_one) {
    const unsigned loopback = ::if_nametoindex("lo");
    fake::nic a({.name = "fake_a"}), b({.name = "fake_b", .interface = loopback});
    a.fail_calls("open_device", EACCES, 2);
    BOOST_TEST(verbs::device::find_by_interface("lo", fake::api()).name == "fake_b");
    BOOST_TEST(mentions(sentence_of([] { verbs::device::find_by_interface("nothere0", fake::api()); }), "/dev/infiniband")); // perhaps it
}

BOOST_AUTO_TEST_CASE(an_interface_without_a_device_is_named) {
    fake::nic a;
    BOOST_TEST(mentions(sentence_of([] { verbs::device::find_by_interface("nothere0", fake::api()); }), "'nothere0'"));
}

BOOST_AUTO_TEST_CASE(addresses_are_found_by_ip_and_a_wrong_one_lists_the_others) {
    fake::nic a({.addresses = {ipv4(10, 0, 0, 1), ipv4(10, 0, 1, 1)}});
    const auto d = verbs::device::open("fake0", fake::api());
    BOOST_TEST(d.addresses().size() == 3u);
    BOOST_TEST(d.address_for(ipv4(10, 0, 1, 1)).index == 2u);
    const std::string said = sentence_of([&] { d.address_for(ipv4(10, 9, 9, 9)); });
    BOOST_TEST(mentions(said, "10.9.9.9"));
    BOOST_TEST(mentions(said, "1: ::ffff:10.0.0.1"));
    BOOST_TEST(mentions(sentence_of([&] { d.port(2); }), "port 2"));
    BOOST_TEST(d.partition(0) == 0xffffu);
}

BOOST_AUTO_TEST_CASE(memory_is_registered_and_says_what_it_contains) {
    fake::nic a;
    const auto d = verbs::device::open("fake0", fake::api());
    const verbs::protection_domain in(d);
    BOOST_TEST(in.without_locks());
    std::vector<std::byte> bytes(4096);
    const verbs::memory_region r(in, bytes, verbs::access::local_write | verbs::access::remote_read);
    BOOST_TEST(r.contains(byte_span(bytes).last(1)));
    BOOST_TEST(!r.contains(byte_span(bytes.data() + 4090, 7)));
    const verbs::memory_region second(in, bytes, verbs::access::local_read);
    BOOST_TEST(r.local_key() != second.local_key());
}

BOOST_AUTO_TEST_CASE(a_refused_registration_names_the_memory_limit) {
    fake::nic a;
    const auto d = verbs::device::open("fake0", fake::api());
    const verbs::protection_domain in(d);
    std::vector<std::byte> bytes(4096);
    a.fail_calls("reg_mr", ENOMEM);
    const std::string said = sentence_of([&] { verbs::memory_region(in, bytes, verbs::access::local_write); });
    BOOST_TEST(mentions(said, "register 4096 bytes with fake0"));
    BOOST_TEST(mentions(said, "ulimit -l"));
    BOOST_TEST(mentions(said, "Cannot allocate memory"));
    BOOST_TEST(mentions(sentence_of([&] { verbs::memory_region(in, bytes, verbs::access::remote_write); }), "local write"));
}

BOOST_AUTO_TEST_CASE(every_set_up_call_that_fails_says_what_was_asked) {
    fake::nic a;
    const auto d = verbs::device::open("fake0", fake::api());
    const auto with = [&](const char* call, int error, auto make) {
        a.fail_calls(call, error);
        return sentence_of(make);
    };
    BOOST_TEST(mentions(with("alloc_pd", ENOMEM, [&] { verbs::protection_domain{d}; }), "protection domain"));
    const verbs::protection_domain in(d);
    BOOST_TEST(mentions(with("create_srq", EINVAL, [&] { verbs::shared_receive_queue(in, {}); }), "1024 receives"));
    BOOST_TEST(mentions(with("create_ah", ENETUNREACH, [&] { verbs::address_handle(in, {}); }), "GID index"));
    BOOST_TEST(mentions(with("create_comp_channel", EMFILE, [&] { verbs::completion_channel{d}; }), "channel"));
    BOOST_TEST(mentions(sentence_of([&] { verbs::completion_queue(d, {.entries = 1u << 20}); }), "max_cqe"));
    BOOST_TEST(verbs::remedy(verbs::operation::query, EIO).find("dmesg") != std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(each_refusal_has_the_remedy_of_its_own_cause) {
    const auto advice = [](verbs::operation tried, int error) { return std::string(verbs::remedy(tried, error)); };
    BOOST_TEST(mentions(advice(verbs::operation::open_connection_manager, EACCES), "/dev/infiniband/rdma_cm"));
    BOOST_TEST(mentions(advice(verbs::operation::open_connection_manager, ENOENT), "modprobe rdma_ucm"));
    BOOST_TEST(mentions(advice(verbs::operation::manage_connection, EACCES), "CAP_NET_BIND_SERVICE"));
    BOOST_TEST(mentions(advice(verbs::operation::join_multicast, ENOBUFS), "igmp_max_memberships"));
    BOOST_TEST(mentions(advice(verbs::operation::make_window, ENOMEM), "max_mw"));
    BOOST_TEST(!mentions(advice(verbs::operation::make_window, ENOMEM), "ulimit"));
    BOOST_TEST(!mentions(advice(verbs::operation::find_ipoib, ENODEV), "dmesg")); // nothing has failed there
    BOOST_TEST(mentions(advice(verbs::operation::make_window, ENODEV), "dmesg"));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_when_the_handles_are_gone) {
    fake::nic a;
    {
        const auto d = verbs::device::open("fake0", fake::api());
        const verbs::protection_domain in(d);
        const verbs::shared_receive_queue queue(in, {.limit = 8});
        const verbs::address_handle handle(in, verbs::destination{.gid = d.addresses().front().gid});
        BOOST_TEST(a.live_objects() != 0u);
    }
    BOOST_TEST(a.live_objects() == 0u);
}

BOOST_AUTO_TEST_CASE(a_forked_child_leaves_its_parents_objects_alone) {
    fake::nic a;
    auto d = verbs::device::open("fake0", fake::api());
    const verbs::protection_domain in(d);
    std::vector<std::byte> bytes(4096);
    verbs::memory_region r(in, bytes, verbs::access::local_write);
    const unsigned before = a.live_objects();
    const pid_t child = ::fork();
    if (child == 0) {
        r = {};
        ::_exit(a.live_objects() == before ? 0 : 1); // its own copy of the fake would have lost the region
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    r = {};
    BOOST_TEST(a.live_objects() == before - 1);
}

BOOST_AUTO_TEST_CASE(a_forked_child_leaves_its_parents_groups_alone) {
    static int detached = 0;
    verbs::verbs_api api = fake::api();
    api.attach_mcast = [](ibv_qp*, const ibv_gid*, std::uint16_t) { return 0; };
    api.detach_mcast = [](ibv_qp*, const ibv_gid*, std::uint16_t) { return ++detached, 0; };
    ibv_qp pair{};
    std::optional<verbs::multicast_attachment> attached(std::in_place, api, &pair, ibv_gid{});
    const pid_t child = ::fork();
    if (child == 0) {
        attached.reset();
        ::_exit(detached);
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    attached.reset();
    BOOST_TEST(detached == 1);
}

BOOST_AUTO_TEST_CASE(a_group_that_cannot_be_joined_for_want_of_descriptors_says_so) {
    verbs::port_address ours{.type = IBV_GID_TYPE_ROCE_V2, .interface = 1};
    ibv_gid group{};
    group.raw[10] = group.raw[11] = 0xff, group.raw[12] = 239, group.raw[15] = 9;
    rlimit before{}, none{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    none.rlim_max = before.rlim_max;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const std::string said = sentence_of([&] { verbs::group_membership(ours, group); });
    ::setrlimit(RLIMIT_NOFILE, &before);
    BOOST_TEST(mentions(said, "open a socket to join the group ::ffff:239.0.0.9"));
    BOOST_TEST(mentions(said, "ulimit -n"));
}

BOOST_AUTO_TEST_SUITE_END()
