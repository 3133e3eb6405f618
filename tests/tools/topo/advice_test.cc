// Advice on interrupts and queues, against a tree of /proc and /sys that the test makes and a runner that only writes
// down.
#include <tools/topo/apply.hh>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

using namespace corewire;
using namespace corewire::topo;
namespace fs = std::filesystem;

namespace {

/// A host with eth1, whose interrupts are 120 (control) and 121 and on (one a queue), all on CPUs 0-7.
struct fake {
    explicit fake(unsigned queues, std::string device = "device") : device_(std::move(device)) {
        add_queues(queues);
        file("/proc/self/comm", "irqbalance\n"); // no process: not a number
        on.root = root;
        on.run = [this](const command& words) { return run(words); };
    }
    ~fake() { fs::remove_all(root); }

    void file(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }
    std::string text(const std::string& path) const { return on.read(path).value_or("(none)"); }
    std::string affinity(unsigned number) const {
        return text("/proc/irq/" + std::to_string(number) + "/smp_affinity_list");
    }

    void add_queues(unsigned queues) {
        fs::remove_all(root + "/sys/class/net/eth1/queues");
        std::string table = "           CPU0  CPU1\n 120: 5 0 PCI-MSI 1-edge eth1\n";
        for (unsigned q = 0; q <= queues; ++q) {
            const std::string number = std::to_string(120 + q);
            file("/sys/class/net/eth1/" + device_ + "/msi_irqs/" + number, "msix\n");
            if (!fs::exists(root + "/proc/irq/" + number)) file("/proc/irq/" + number + "/smp_affinity_list", "0-7");
            if (q == queues) break;
            fs::create_directories(root + "/sys/class/net/eth1/queues/rx-" + std::to_string(q));
            table += " " + std::to_string(121 + q) + ": 1 2 PCI-MSI 2-edge eth1-TxRx-" + std::to_string(q) + "\n";
        }
        file("/proc/interrupts", table + " 200: 1 1 PCI-MSI 9-edge nvme0q1\n NMI: 0 0 Non-maskable interrupts\n");
    }

    command_result run(const command& words) {
        const std::string line = shell_text(words);
        if (line == "ethtool -l eth1") return {.status = 0, .output = channels};
        if (line == "ethtool -x eth1") return {.status = 0, .output = hash_table};
        commands.push_back(line);
        if (line == failing) return {.status = 1};
        if (!vanishing.empty()) fs::remove_all(root + vanishing);
        if (line.starts_with("ethtool -L eth1 combined "))
            add_queues(static_cast<unsigned>(std::stoul(line.substr(25))));
        if (line.starts_with("ethtool -L eth1 rx ")) add_queues(static_cast<unsigned>(std::stoul(line.substr(19))));
        return {};
    }

    std::string root = (fs::current_path() / ("advice_test." + std::to_string(::getpid()))).string();
    std::string state = root + "/state";
    std::string hash_table = "RX flow hash indirection table for eth1 with 4 RX ring(s):\n    0:      0     1     2    "
                             " 3\n    4:      0     1\n"
                             "RSS hash key:\n6d:5a\n";
    std::string channels;  ///< `ethtool -l`
    std::string failing;   ///< this command fails
    std::string vanishing; ///< this folder is gone when the first command is run
    std::vector<std::string> commands;
    host on;

private:
    std::string device_;
};

machine eight_cpus() { return machine::synthetic("core:8 pu:1"); }
placement two_shards() {
    return parse_placement("interface = \"eth1\"\nshard = \"pu:2,queue:0\"\nshard = \"pu:3,queue:1\"\n");
}
const report nothing = [](const std::string&) {};

std::vector<std::string> lines(const advice& a) {
    std::vector<std::string> out;
    for (const step& s : a.steps)
        out.push_back(do_text(s));
    return out;
}

template <typename Action>
std::string refusal(Action action) {
    try {
        action();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "accepted";
}

#define CHECK_LINES(got, ...)                                                                                          \
    BOOST_TEST((got) == (std::vector<std::string>{__VA_ARGS__}), boost::test_tools::per_element())

} // namespace

BOOST_AUTO_TEST_SUITE(advice)

BOOST_AUTO_TEST_CASE(each_queue_goes_to_its_shard_and_the_rest_to_the_others) {
    const fake f(4);
    f.file("/proc/77/comm", "irqbalance\n");
    CHECK_LINES(lines(make_advice(f.on, eight_cpus(), two_shards())), "systemctl stop irqbalance",
                "ethtool -X eth1 equal 2", "echo 0-1,4-7 >/proc/irq/120/smp_affinity_list",
                "echo 2 >/proc/irq/121/smp_affinity_list", "echo 3 >/proc/irq/122/smp_affinity_list",
                "echo 0-1,4-7 >/proc/irq/123/smp_affinity_list", "echo 0-1,4-7 >/proc/irq/124/smp_affinity_list");
}

BOOST_AUTO_TEST_CASE(what_is_right_already_is_left_alone) {
    const fake f(2);
    f.file("/proc/irq/120/smp_affinity_list", "0-1,4-7\n");
    f.file("/proc/irq/121/smp_affinity_list", "2\n");
    f.file("/proc/irq/122/smp_affinity_list", "3\n");
    BOOST_TEST(make_advice(f.on, eight_cpus(), two_shards()).steps.empty());
    BOOST_TEST(apply(f.on, eight_cpus(), two_shards(), f.state, nothing) == 0u);
    BOOST_TEST(!fs::exists(f.state));
}

BOOST_AUTO_TEST_CASE(queues_that_do_not_begin_at_0_get_weights) {
    const fake f(4);
    const auto placed = parse_placement("interface = \"eth1\"\nshard = \"pu:2,queue:1\"\nshard = \"pu:3,queue:3\"\n");
    BOOST_TEST(lines(make_advice(f.on, eight_cpus(), placed)).front() == "ethtool -X eth1 weight 0 1 0 1");
}

BOOST_AUTO_TEST_CASE(missing_queues_are_made_first) {
    const fake f(1);
    const topo::advice a = make_advice(f.on, eight_cpus(), two_shards());
    CHECK_LINES(lines(a), "ethtool -L eth1 combined 2");
    BOOST_TEST(a.again);
}

BOOST_AUTO_TEST_CASE(apply_does_all_and_restore_puts_back_what_was_there) {
    fake f(4);
    f.file("/proc/77/comm", "irqbalance\n");
    f.file("/proc/irq/121/smp_affinity_list", "5\n");
    BOOST_TEST(apply(f.on, eight_cpus(), two_shards(), f.state, nothing) == 7u);
    CHECK_LINES(f.commands, "systemctl stop irqbalance", "ethtool -X eth1 equal 2");
    BOOST_TEST(f.affinity(121) == "2");
    BOOST_TEST(f.affinity(124) == "0-1,4-7");
    struct stat about {};
    BOOST_TEST((::stat(f.state.c_str(), &about) == 0 && (about.st_mode & 0777) == 0600));
    BOOST_TEST(refusal([&] { apply(f.on, eight_cpus(), two_shards(), f.state, nothing); }).find("--restore") !=
               std::string::npos);
    f.commands.clear();
    std::vector<std::string> said;
    BOOST_TEST(restore(f.on, f.state, [&](const std::string& line) { said.push_back(line); }) == 7u);
    CHECK_LINES(f.commands, "ethtool -X eth1 default", "systemctl start irqbalance");
    BOOST_TEST(said.front() == "echo 0-7 >/proc/irq/124/smp_affinity_list");
    BOOST_TEST(f.affinity(121) == "5");
    BOOST_TEST(f.affinity(124) == "0-7");
    BOOST_TEST(!fs::exists(f.state));
    BOOST_TEST(refusal([&] { restore(f.on, f.state, nothing); }).find("nothing to restore") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(apply_looks_again_when_queues_were_made) {
    fake f(1);
    BOOST_TEST(apply(f.on, eight_cpus(), two_shards(), f.state, nothing) == 4u);
    BOOST_TEST(f.affinity(122) == "3");
    restore(f.on, f.state, nothing);
    CHECK_LINES(f.commands, "ethtool -L eth1 combined 2", "ethtool -L eth1 combined 1");
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_is_not_undone_itself) {
    fake f(1);
    f.failing = "ethtool -L eth1 combined 2";
    const std::string why = refusal([&] { apply(f.on, eight_cpus(), two_shards(), f.state, nothing); });
    BOOST_TEST(why.ends_with("; everything is as before"), why);
    BOOST_TEST(f.commands.size() == 1u);
    BOOST_TEST(!fs::exists(f.state));
}

BOOST_AUTO_TEST_CASE(where_receiving_and_sending_queues_are_counted_apart_both_are_made_and_taken_back) {
    fake f(1);
    f.channels = "Channel parameters for eth1:\nPre-set maximums:\nRX:\t\t4\nTX:\t\t4\nOther:\t\tn/a\nCombined:\tn/a\n"
                 "Current hardware settings:\nRX:\t\t1\nTX:\t\t1\nOther:\t\tn/a\nCombined:\tn/a\n";
    apply(f.on, eight_cpus(), two_shards(), f.state, nothing);
    BOOST_TEST(f.commands.front() == "ethtool -L eth1 rx 2 tx 2");
    restore(f.on, f.state, nothing);
    BOOST_TEST(f.commands.back() == "ethtool -L eth1 rx 1 tx 1");
}

BOOST_AUTO_TEST_CASE(sending_queues_of_which_there_were_more_stay_as_many) {
    fake f(1);
    f.channels = "Channel parameters for eth1:\nPre-set maximums:\nRX:\t\t4\nTX:\t\t16\nOther:\t\tn/a\nCombined:\tn/a\n"
                 "Current hardware settings:\nRX:\t\t1\nTX:\t\t8\nOther:\t\tn/a\nCombined:\tn/a\n";
    apply(f.on, eight_cpus(), two_shards(), f.state, nothing);
    BOOST_TEST(f.commands.front() == "ethtool -L eth1 rx 2 tx 8");
    restore(f.on, f.state, nothing);
    BOOST_TEST(f.commands.back() == "ethtool -L eth1 rx 1 tx 8");
}

BOOST_AUTO_TEST_CASE(queues_of_a_state_file_that_does_not_count_sending_ones_are_as_many_of_each) {
    fake f(2);
    std::ofstream(f.state) << R"({"version":1,"steps":[{"kind":"channels","interface":"eth1","number":2,"before":"1","separate":true}]})";
    ::chmod(f.state.c_str(), 0600);
    BOOST_TEST(restore(f.on, f.state, nothing) == 1u);
    CHECK_LINES(f.commands, "ethtool -L eth1 rx 1 tx 1");
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_undoes_those_before_it) {
    fake f(4);
    f.file("/proc/77/comm", "irqbalance\n");
    f.failing = "ethtool -X eth1 equal 2";
    const std::string why = refusal([&] { apply(f.on, eight_cpus(), two_shards(), f.state, nothing); });
    BOOST_TEST(
        why ==
        "`ethtool -X eth1 equal 2` failed with exit status 1 (run as root; it has said why); everything is as before");
    BOOST_TEST(f.commands.back() == "systemctl start irqbalance");
    BOOST_TEST(!fs::exists(f.state));
}

BOOST_AUTO_TEST_CASE(an_interrupt_that_goes_meanwhile_undoes_the_others_and_is_named) {
    fake f(4);
    f.vanishing = "/proc/irq/123";
    const std::string why = refusal([&] { apply(f.on, eight_cpus(), two_shards(), f.state, nothing); });
    BOOST_TEST(why.starts_with("/proc/irq/123/smp_affinity_list cannot be set to 0-1,4-7: No such file"), why);
    BOOST_TEST(why.ends_with("; everything is as before"), why);
    BOOST_TEST(f.affinity(121) == "0-7");
    BOOST_TEST(f.commands.back() == "ethtool -X eth1 default");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_undone_stays_in_the_state_file) {
    fake f(4);
    apply(f.on, eight_cpus(), two_shards(), f.state, nothing);
    f.failing = "ethtool -X eth1 default";
    BOOST_TEST(
        refusal([&] { restore(f.on, f.state, nothing); }).starts_with("1 of 6 steps could not be undone and stay in "));
    BOOST_TEST(f.affinity(121) == "0-7");
    f.failing.clear();
    BOOST_TEST(restore(f.on, f.state, nothing) == 1u);
}

BOOST_AUTO_TEST_CASE(an_interrupt_that_is_another_s_by_now_is_left_alone) {
    fake f(4);
    BOOST_TEST(apply(f.on, eight_cpus(), two_shards(), f.state, nothing) == 6u);
    // The driver was loaded anew: 121 is a disk's, 122 has gone, the others are as they were.
    f.file("/proc/interrupts", "           CPU0  CPU1\n 120: 5 0 PCI-MSI 1-edge eth1\n 121: 1 1 PCI-MSI 9-edge nvme0q1\n"
                               " 123: 1 2 PCI-MSI 2-edge eth1-TxRx-2\n 124: 1 2 PCI-MSI 2-edge eth1-TxRx-3\n");
    f.file("/proc/irq/121/smp_affinity_list", "6\n");
    std::vector<std::string> said;
    BOOST_TEST(restore(f.on, f.state, [&](const std::string& line) { said.push_back(line); }) == 4u);
    CHECK_LINES(said, "echo 0-7 >/proc/irq/124/smp_affinity_list", "echo 0-7 >/proc/irq/123/smp_affinity_list",
                "# interrupt 122 (eth1-TxRx-1) is gone: there is nothing to put back",
                "# interrupt 121 was eth1-TxRx-0 and is nvme0q1 now: it is left as it is",
                "echo 0-7 >/proc/irq/120/smp_affinity_list", "ethtool -X eth1 default");
    BOOST_TEST(f.affinity(121) == "6\n");
    BOOST_TEST(f.affinity(122) == "3");
    BOOST_TEST(!fs::exists(f.state));
}

BOOST_AUTO_TEST_CASE(interrupts_whose_names_cannot_be_told_stay_in_the_state_file) {
    fake f(2);
    apply(f.on, eight_cpus(), two_shards(), f.state, nothing);
    const std::string table = f.text("/proc/interrupts");
    f.file("/proc/interrupts", ""); // as a container masks it
    const std::string why = refusal([&] { restore(f.on, f.state, nothing); });
    BOOST_TEST(why.starts_with("3 of 3 steps could not be undone and stay in "), why);
    BOOST_TEST(why.ends_with("/proc/interrupts cannot be read, which would say whose interrupt 122 is now"), why);
    BOOST_TEST(f.affinity(122) == "3");
    f.file("/proc/interrupts", table);
    BOOST_TEST(restore(f.on, f.state, nothing) == 3u);
    BOOST_TEST(f.affinity(122) == "0-7");
}

BOOST_AUTO_TEST_CASE(a_state_file_of_before_there_were_names_is_restored_by_number) {
    fake f(4);
    std::ofstream(f.state) << R"({"version":1,"steps":[{"kind":"interrupt","interface":"","number":121,"before":"1"}]})";
    ::chmod(f.state.c_str(), 0600);
    BOOST_TEST(restore(f.on, f.state, nothing) == 1u);
    BOOST_TEST(f.affinity(121) == "1");
}

BOOST_AUTO_TEST_CASE(names_that_are_no_names_are_not_kept) {
    fake f(2);
    f.file("/proc/interrupts", " 121: 1 2 PCI-MSI 2-edge eth1\xff\x1b[2J-0\n 122: 1 2 PCI-MSI 2-edge eth1-" +
                                   std::string(200, '0') + "1\n");
    BOOST_TEST(apply(f.on, eight_cpus(), two_shards(), f.state, nothing) == 3u);
    BOOST_TEST(restore(f.on, f.state, nothing) == 3u);
}

BOOST_AUTO_TEST_CASE(a_table_of_interrupts_with_many_cpus_is_read_to_its_end) {
    fake f(4);
    std::string wide = "           CPU0\n";
    for (unsigned q = 0; q < 4; ++q) {
        wide += " " + std::to_string(121 + q) + ":";
        for (unsigned cpu = 0; cpu < 8192; ++cpu) wide += "          0";
        wide += "  PCI-MSI 2-edge eth1-TxRx-" + std::to_string(q) + "\n";
    }
    f.file("/proc/interrupts", wide);
    const topo::advice a = make_advice(f.on, eight_cpus(), two_shards());
    BOOST_TEST(a.steps.back().name == "eth1-TxRx-3");
}

BOOST_AUTO_TEST_CASE(the_key_of_a_hash_is_no_row_of_its_table) {
    for (const char* key : {"12:34:5e:00", "0:1", "99:"}) {
        fake f(4);
        f.hash_table = std::string("    0:      0     1     2     3\nRSS hash key:\n") + key + "\nRSS hash function:\n    toeplitz: on\n";
        BOOST_TEST(refusal([&] { apply(f.on, eight_cpus(), two_shards(), f.state, nothing); }) == "accepted", key);
    }
}

BOOST_AUTO_TEST_CASE(a_hash_that_was_set_by_hand_is_not_touched) {
    fake f(4);
    f.hash_table = "    0:      0     0     1     1\n";
    BOOST_TEST(refusal([&] { apply(f.on, eight_cpus(), two_shards(), f.state, nothing); }).find("set by hand") !=
               std::string::npos);
    BOOST_TEST(f.commands.empty());
    BOOST_TEST(!fs::exists(f.state));
}

BOOST_AUTO_TEST_CASE(a_state_file_of_somebody_else_is_not_followed) {
    fake f(4);
    const auto with = [&](const std::string& text, mode_t mode = 0600) {
        fs::remove(f.state);
        std::ofstream(f.state) << text;
        ::chmod(f.state.c_str(), mode);
        return refusal([&] { restore(f.on, f.state, nothing); });
    };
    const auto steps = [](const std::string& entry) { return "{\"version\":1,\"steps\":[" + entry + "]}"; };
    BOOST_TEST(with(steps(""), 0666).find("not only yours") != std::string::npos);
    for (const std::string& bad :
         {std::string("x"), std::string(), std::string("[]"), std::string("{\"version\":2,\"steps\":[]}"),
          std::string(100'000, '['), steps(R"({"kind":"shell","interface":"","number":0,"before":"rm"})"),
          steps(R"({"kind":"hash","interface":"--flash","number":0,"before":""})"),
          steps(R"({"kind":"hash","interface":"a b","number":0,"before":""})"),
          steps(R"({"kind":"channels","interface":"eth1","number":0,"before":"1 --x"})"),
          steps(R"({"kind":"channels","interface":"eth1","number":0,"before":"1","sending":4096})"),
          steps(R"({"kind":"channels","interface":"eth1","number":0,"before":"1","sending":-1})"),
          steps(R"({"kind":"channels","interface":"eth1","number":0,"before":"1","sending":"1; x"})"),
          steps(R"({"kind":"interrupt","interface":"","number":121,"before":"/etc"})"),
          steps(R"({"kind":"interrupt","interface":"","number":"../..","before":"0"})"),
          steps(R"({"kind":"interrupt","interface":"","number":121,"name":7,"before":"0"})"),
          steps(R"({"kind":"interrupt","interface":"","number":121,"name":"a\u001b[2J","before":"0"})"),
          steps(R"({"kind":"interrupt","interface":"","number":121,"name":"a b","before":"0"})"),
          steps(R"({"kind":"interrupt","interface":"","number":121,"name":")" + std::string(129, 'a') +
                R"(","before":"0"})")})
        BOOST_TEST(with(bad).find("is not a state file") != std::string::npos, bad.substr(0, 100));
    BOOST_TEST(with(std::string((1u << 20) + 1, ' ')).find("more than 1024 KiB") != std::string::npos);
    fs::remove(f.state);
    f.file("/elsewhere", steps(""));
    fs::create_symlink(f.root + "/elsewhere", f.state);
    BOOST_TEST(refusal([&] { restore(f.on, f.state, nothing); }).find("cannot be opened") != std::string::npos);
    BOOST_TEST(f.commands.empty());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_advised_is_refused) {
    const fake f(4);
    const auto advised = [&](const char* lines) {
        return refusal([&] { make_advice(f.on, eight_cpus(), parse_placement(lines)); });
    };
    BOOST_TEST(advised("shard = \"pu:1\"") ==
               "the placement names no interface: plan with `cw-topo plan --nic IFNAME`");
    BOOST_TEST(advised("interface = \"eth9\"\nshard = \"pu:1\"") ==
               "there is no interface eth9 here, or it has no queues");
    BOOST_TEST(advised("interface = \"-L\"\nshard = \"pu:1\"") == "'-L' is not the name of an interface");
}

BOOST_AUTO_TEST_CASE(names_of_interrupts_say_which_queue_they_serve) {
    for (const char* name : {"eth1-TxRx-3", "i40e-eth1-TxRx-3", "eth1-Tx-Rx-3", "mlx5_comp3@pci:0000:98:00.0",
                             "virtio0-input.3", "eth1-3", "eth1-rx-3", "enp1s0f0-fp-3"})
        BOOST_TEST(queue_of(name, "eth1").value_or(99) == 3u, name);
    for (const char* name : {"eth1", "mlx5_async0@pci:0000:98:00.0", "virtio0-config", "ena-mgmnt@pci:0000:00:05.0",
                             "i40e-0000:18:00.0:misc", ""})
        BOOST_TEST(!queue_of(name, "eth1"), name);
}

BOOST_AUTO_TEST_SUITE_END()
