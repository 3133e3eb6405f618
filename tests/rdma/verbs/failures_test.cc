// Each call of the set-up that fails: what is said of it, and that nothing is left behind.
#include <corewire/rdma/raw/verbs_port.hh>
#include <corewire/rdma/verbs/error.hh>
#include <corewire/rdma/verbs/receive_side_scaling.hh>
#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include "tests/rdma/support.hh"

#include <corewire/net/port/rss.hh>

#include <functional>

using namespace corewire;
using namespace corewire::test;

namespace {

/// What calls are tried with: objects that are there already.
struct set_up {
    fake::nic nic{{.addresses = {ipv4(10, 0, 0, 1)}}};
    verbs::device device = verbs::device::open("fake0", fake::api());
    verbs::protection_domain domain{device};
    verbs::completion_queue completions{device, {}};
    verbs::receive_work_queue receives{domain, completions, 64};
};

struct failure {
    const char* call;
    int error;
    unsigned times; ///< it is tried: what a driver may lack is done without
    std::function<void(set_up&)> asks;
    const char* what;
    const char* remedy;
};

const verbs::completion_queue_options large{.entries = 512};
const verbs::completion_queue_options timed{.entries = 512, .timestamps = true};

void make_queue(set_up& s) { verbs::completion_queue(s.device, large); }
void make_timed_queue(set_up& s) { verbs::completion_queue(s.device, timed); }
void make_receives(set_up& s) { verbs::receive_work_queue(s.domain, s.completions, 128); }
void make_table(set_up& s) {
    verbs::receive_work_queue* const queues[] = {&s.receives};
    verbs::spread(s.device, queues, 8);
}
void open_device(set_up&) { verbs::device::open("fake0", fake::api()); }

const failure known[] = {
    {"create_cq", ENOMEM, 3, make_queue, "make a completion queue of 512 entries on fake0", "ulimit -l"},
    {"create_cq", EINVAL, 3, make_queue, "make a completion queue of 512 entries on fake0", "max_cqe"},
    {"create_cq", EOPNOTSUPP, 2, make_timed_queue, "512 entries on fake0 with timestamps", "ask for no timestamps"},
    {"create_wq", ENOMEM, 1, make_receives, "make a receive work queue of 128 on fake0", "ulimit -l"},
    {"create_wq", EOPNOTSUPP, 1, make_receives, "make a receive work queue of 128 on fake0", "use one core"},
    {"create_wq", EPERM, 1, make_receives, "make a receive work queue of 128 on fake0", "CAP_NET_RAW"},
    {"modify_wq", ENOMEM, 1, make_receives, "make a receive work queue of 128 on fake0", "ulimit -l"},
    {"create_rwq_ind_table", EOPNOTSUPP, 1, make_table, "a table of 8 entries that spreads packets over 1 queues on fake0", "use one core"},
    {"create_rwq_ind_table", EINVAL, 1, make_table, "a table of 8 entries that spreads packets over 1 queues on fake0", "rss_caps"},
    {"create_rwq_ind_table", ENOMEM, 1, make_table, "a table of 8 entries that spreads packets over 1 queues on fake0", "rss_caps"},
    {"modify_srq", EINVAL, 1, [](set_up& s) { verbs::shared_receive_queue(s.domain, {.max_receives = 64, .limit = 8}); },
     "have a shared queue of 64 receives on fake0 tell when fewer than 8 are left", "the limit is more than"},
    {"modify_srq", EOPNOTSUPP, 1, [](set_up& s) { verbs::shared_receive_queue(s.domain, {.max_receives = 64, .limit = 8}); },
     "have a shared queue of 64 receives on fake0 tell when fewer than 8 are left", "leave the limit out"},
    {"query_device", EIO, 1, open_device, "ask fake0 what it can do", "dmesg"},
    {"query_device", EINVAL, 1, open_device, "ask fake0 what it can do", "its driver does not answer"},
    {"query_port", EINVAL, 1, [](set_up& s) { s.device.port(1); }, "ask fake0 about its port 1", "`ibv_devinfo` shows its ports"},
    {"query_port", ENODEV, 1, [](set_up& s) { s.device.port(1); }, "ask fake0 about its port 1", "the device has gone or failed"},
    {"query_gid_table", EINVAL, 1, [](set_up& s) { s.device.addresses(); }, "list the addresses (GIDs) of fake0", "ibv_devinfo -v"},
    {"query_gid_table", EIO, 1, [](set_up& s) { s.device.address_for(ipv4(10, 0, 0, 1)); }, "list the addresses (GIDs) of fake0", "dmesg"},
};

} // namespace

BOOST_AUTO_TEST_SUITE(failures)

BOOST_AUTO_TEST_CASE(each_call_that_fails_is_told_with_its_errno_and_a_remedy_and_leaves_nothing) {
    for (const failure& f : known) {
        BOOST_TEST_CONTEXT(f.call << ", errno " << f.error) {
            set_up s;
            const unsigned objects = s.nic.live_objects();
            s.nic.fail_calls(f.call, f.error, f.times);
            std::string said;
            int error = 0;
            try {
                f.asks(s);
            } catch (const std::system_error& e) {
                said = e.what();
                error = e.code().value();
            }
            BOOST_TEST(error == f.error);
            BOOST_TEST(said.starts_with("cannot "), said);
            BOOST_TEST(mentions(said, f.what), said);
            BOOST_TEST(mentions(said, f.remedy), said);
            BOOST_TEST(mentions(said, std::generic_category().message(f.error)), said);
            BOOST_TEST(s.nic.live_objects() == objects);
            f.asks(s); // nothing of it is left in the way, either
            BOOST_TEST(s.nic.live_objects() == objects);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_driver_without_thread_domains_or_parents_of_them_is_used_with_its_locks) {
    for (const char* const call : {"alloc_td", "alloc_parent_domain"}) {
        for (const int error : {EOPNOTSUPP, ENOMEM}) {
            set_up s;
            const unsigned objects = s.nic.live_objects();
            s.nic.fail_calls(call, error);
            {
                const verbs::protection_domain in(s.device);
                BOOST_TEST(!in.without_locks());
                std::vector<std::byte> bytes(4096);
                const verbs::memory_region region(in, bytes, verbs::access::local_write);
                const verbs::queue_pair pair(in, {.sends = &s.completions});
                BOOST_TEST(s.nic.live_objects() > objects);
            }
            BOOST_TEST(s.nic.live_objects() == objects);
            BOOST_TEST(verbs::protection_domain(s.device).without_locks());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_driver_that_knows_no_queues_of_one_thread_gives_a_plain_one) {
    for (const unsigned times : {1u, 2u}) { // the flag, and the call
        set_up s;
        s.nic.fail_calls("create_cq", EOPNOTSUPP, times);
        const verbs::completion_queue queue(s.device, large);
        BOOST_TEST(queue.entries() == 512u);
        BOOST_TEST(queue.extended() == nullptr);
    }
}

BOOST_AUTO_TEST_CASE(of_a_pair_that_cannot_be_asked_no_state_is_known) {
    raw_world w;
    for (const int error : {EIO, EINVAL}) {
        w.nic.fail_calls("query_qp", error);
        BOOST_TEST(!w.pair.state().has_value());
        BOOST_TEST((w.pair.state() == IBV_QPS_RTS));
    }
}

BOOST_AUTO_TEST_CASE(a_port_of_which_any_call_fails_is_told_by_the_name_of_its_device_and_leaves_nothing) {
    const char* const calls[] = {"open_device", "query_device", "query_port",           "query_gid_table", "alloc_pd",
                                 "create_cq",   "create_qp",    "create_comp_channel",  "modify_qp",       "create_wq",
                                 "modify_wq",   "create_flow",  "create_rwq_ind_table", "reg_mr",          "modify_cq"};
    for (const char* const call : calls) {
        fake::nic nic;
        unsigned failed = 0;
        for (bool made = false; !made; ++failed) { // its first call, its second, and so on
            BOOST_REQUIRE(failed < 100u);
            nic.fail_calls(call, ENOMEM, ~0u, failed);
            const std::string said = sentence_of([&] {
                const auto device = std::make_shared<verbs_device>(
                    verbs_device_options{.device = "fake0", .queues = 2, .steering = verbs_steering::everything, .api = &fake::api()});
                const corewire::verbs_port first(device, 0, {.moderate_us = 20}), second(device, 1, {.moderate_us = 20});
                made = true;
            });
            BOOST_TEST(made == said.empty());
            BOOST_TEST((made || mentions(said, "fake0")), call << ": " << said);
            BOOST_TEST((made || mentions(said, "Cannot allocate memory")), call << ": " << said);
            BOOST_TEST(nic.live_objects() == 0u, call << ", after " << failed);
        }
        BOOST_TEST(failed > 1u, call); // it was called at all
    }
}

BOOST_AUTO_TEST_SUITE_END()
