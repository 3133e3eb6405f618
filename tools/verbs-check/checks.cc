#include "checks.hh"
#include "traffic.hh"

#include <corewire/net/port/rss.hh>
#include <corewire/rdma/raw/verbs_port.hh>
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/error.hh>
#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <poll.h>
#include <sys/mman.h>

namespace corewire::verbs_check {

namespace {

constexpr std::uint16_t experimental = 0x88b5; ///< IEEE 802 local experimental: no other host answers

class examiner {
public:
    examiner(std::string name, std::uint8_t port, const verbs::verbs_api& api)
        : api_(api), device_(verbs::device::open(name, api)), port_(port) {
        const unsigned ports = device_.limits().phys_port_cnt;
        if (port == 0 || port > ports)
            verbs::fail(verbs::operation::query, EINVAL,
                        fmt::format("examine port {} of {}: its ports are 1{}", port, name, ports > 1 ? fmt::format(" to {}", ports) : ""));
        report_.device = std::move(name);
    }

    report run() {
        tell_facts();
        check("memory: 8 MiB registered for local writes", [this] { memory(); });
        check("memory: 256 MiB, as the pools of many cores need it", [this] { much_memory(); }, verdict::lacking);
        check("completion queue with an event channel", [this] { events(); });
        check("events moderated (--moderation-us)", [this] { moderation(); }, verdict::lacking);
        check("extended completion queue with timestamps", [this] { timestamps(); }, verdict::lacking);
        check("shared receive queue", [this] { verbs::shared_receive_queue(domain(), {}); }, verdict::lacking);
        check("UD queue pair to RTS", [this] { datagrams(); }, verdict::lacking);
        check("RC queue pair made", [this] { connected(); }, verdict::lacking);
        check("port: queues, frame pool, raw-packet queue pair to RTS, rules for ARP and EtherType 0x88b5", [this] { open_port(); });
        if (!the_port_) return std::move(report_);
        check("ibv_wr_*() on the raw-packet queue pair", [this] { extended(); }, verdict::lacking);
        check("inline sends", [this] { inline_sends(); }, verdict::lacking);
        check("flow rule for an address", [this] { rule_for_address(); });
        check("flow rule for an IPv6 address", [this] { rule_for_ipv6(); }, verdict::lacking);
        check("flow rule for a connection (5-tuple)", [this] { rule_for_flow(); });
        check("flow rule for a multicast group", [this] { rule_for_group(); }, verdict::lacking);
        check("64 frames sent in two bursts, all completed", [this] { send(); });
        check("sleep: armed, and woken or quiet as it should be", [this] { sleep(); });
        check("queue pair put back to its beginning, and sending again", [this] { restart(); });
        the_port_.reset();
        shared_.reset();
        check("receive-side scaling over two queues", [this] { spread(); }, verdict::lacking);
        frames();
        return std::move(report_);
    }

private:
    /// What only frames prove. Where none comes back, everything is said not to be proved, with the reason once.
    void frames() {
        std::optional<traffic> between;
        check("two users of the device at a time", [&] { between.emplace(report_.device, port_, api_); });
        if (!between) return;
        const auto say = [&](std::string (traffic::*what)()) { return [this, &between, what] { detail_ = ((*between).*what)(); }; };
        check("a frame of our own received", say(&traffic::comes_back));
        const bool none = report_.findings.back().how != verdict::works;
        const auto prove = [&](const char* what, std::string (traffic::*how)(), verdict otherwise = verdict::fails) {
            if (none) report_.findings.push_back({what, verdict::unproved, "no frame came back"});
            else check(what, say(how), otherwise);
        };
        prove("a frame as long as the MTU lets it be", &traffic::whole_packet);
        prove("a sleeper woken by a frame", &traffic::wakes_a_sleeper);
        prove("checksums of what is sent completed", &traffic::checksums_completed, verdict::lacking);
        prove("checksums of what arrives judged", &traffic::checksums_judged, verdict::lacking);
        prove("a large segment cut (TSO)", &traffic::large_segment, verdict::lacking);
        prove("an address's packets ours, another's not", &traffic::only_what_is_ours);
        prove("flow rules kept while a queue pair is put back to its beginning", &traffic::rules_outlive_a_reset);
        prove("a connection's and a port's packets ours, others not (--shared)", &traffic::one_flow, verdict::lacking);
        prove("a VLAN's frames ours, others not (--vlan)", &traffic::one_vlan, verdict::lacking);
        prove("flows spread over two queues by their hash", &traffic::spread_by_hash, verdict::lacking);
    }
    void check(std::string what, const std::function<void()>& attempt, verdict otherwise = verdict::fails) {
        detail_.clear();
        const auto begin = std::chrono::steady_clock::now();
        verdict how = verdict::works;
        try {
            attempt();
        } catch (const not_proved& e) {
            how = verdict::unproved;
            detail_ = e.what();
        } catch (const dangerous& e) {
            how = verdict::fails;
            detail_ = e.what();
        } catch (const std::exception& e) {
            how = otherwise;
            detail_ = e.what();
        }
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
        detail_ += fmt::format("{}{:.1f} ms", detail_.empty() ? "" : "; ", took.count());
        report_.findings.push_back({std::move(what), how, detail_});
    }
    static void needs(bool holds, const char* else_what) {
        if (!holds) throw std::runtime_error(else_what);
    }

    void tell_facts() {
        const ibv_device_attr_ex& a = device_.attributes();
        const ibv_port_attr p = device_.port(port_);
        const auto fact = [this](std::string name, std::string value) { report_.facts.emplace_back(std::move(name), std::move(value)); };
        fact("firmware", a.orig_attr.fw_ver);
        fact("vendor, part", fmt::format("{:#x}, {}", a.orig_attr.vendor_id, a.orig_attr.vendor_part_id));
        fact("port", fmt::format("{}, {}, {}", port_, p.state == IBV_PORT_ACTIVE ? "active" : "down",
                                 p.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand"));
        fact("path MTU", fmt::format("{}", verbs::bytes_of(p.active_mtu)));
        fact("limits", fmt::format("{} work requests, {} pieces, {} completions", a.orig_attr.max_qp_wr, a.orig_attr.max_sge,
                                   a.orig_attr.max_cqe));
        fact("capability flags", fmt::format("{:#x}, raw packets {:#x}, extended {:#x}", a.orig_attr.device_cap_flags, a.raw_packet_caps,
                                             a.device_cap_flags_ex));
        const ibv_fork_status forks = api_.is_fork_initialized();
        fact("fork", forks == IBV_FORK_UNNEEDED ? "safe (the kernel copies for the child)"
                     : forks == IBV_FORK_ENABLED ? "safe (IBV_FORK_SAFE)"
                                                 : "set IBV_FORK_SAFE=1 for a program that forks and goes on in both processes");
        fact("TSO", fmt::format("{} bytes", a.tso_caps.max_tso));
        fact("RSS", fmt::format("{} slots, fields {:#x}", a.rss_caps.max_rwq_indirection_table_size, a.rss_caps.rx_hash_fields_mask));
        std::string addresses;
        for (const verbs::port_address& each : device_.addresses(port_))
            addresses += fmt::format("{}{}: {} (type {})", addresses.empty() ? "" : ", ", each.index, verbs::to_string(each.gid),
                                     static_cast<int>(each.type));
        fact("addresses (GIDs)", addresses);
    }
    verbs::protection_domain& domain() {
        if (!domain_) domain_.emplace(device_);
        return *domain_;
    }
    void memory() {
        std::vector<std::byte> bytes(8 << 20);
        const verbs::memory_region region(domain(), bytes, verbs::access::local_write);
        detail_ = domain().without_locks() ? "thread domains: yes" : "thread domains: no";
    }
    void much_memory() {
        constexpr std::size_t size = 256 << 20;
        void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        needs(at != MAP_FAILED, "this process may not have so much memory (`ulimit -v`)");
        const std::unique_ptr<void, void (*)(void*)> keep(at, [](void* p) { ::munmap(p, size); });
        const verbs::memory_region region(domain(), {static_cast<std::byte*>(at), size}, verbs::access::local_write);
    }
    void events() {
        verbs::completion_channel channel(device_);
        verbs::completion_queue queue(device_, {.entries = 64, .channel = &channel});
        needs(queue.arm() == 0, "ibv_req_notify_cq() failed");
    }
    void moderation() {
        verbs::completion_queue queue(device_, {.entries = 64});
        needs(queue.moderate(64, 20), "the device moderates none: leave --moderation-us out");
    }
    void timestamps() { verbs::completion_queue(device_, {.entries = 64, .timestamps = true}); }
    void datagrams() {
        verbs::completion_queue queue(device_, {.entries = 64});
        verbs::queue_pair pair(domain(), {.type = verbs::transport::unreliable_datagram, .sends = &queue});
        pair.activate(verbs::datagram_parameters{.port = port_});
    }
    void connected() {
        verbs::completion_queue queue(device_, {.entries = 64});
        verbs::queue_pair pair(domain(), {.sends = &queue});
        pair.to_init(verbs::connection_parameters{.port = port_});
        detail_ = fmt::format("{} bytes inline", pair.capacity().max_inline_data);
    }
    verbs_device_options options(unsigned queues) const {
        verbs_device_options o{.device = report_.device, .port = port_, .queues = queues};
        o.api = &api_;
        return o;
    }
    void open_port() {
        shared_ = std::make_shared<verbs_device>(options(1));
        the_port_ = std::make_unique<verbs_port>(shared_, 0);
        detail_ = fmt::format("MAC {}, MTU {}", wire::to_string(the_port_->mac()), the_port_->mtu());
    }
    void extended() {
        needs(the_port_->uses_calls(), "the driver has none: chains of work requests are used");
    }
    void inline_sends() {
        needs(the_port_->inline_limit() != 0, "the device has none");
        detail_ = fmt::format("up to {} bytes", the_port_->inline_limit());
    }
    void rule_for_address() { // TEST-NET-1 (RFC 5737): nobody's
        shared_->own(ipv4(192, 0, 2, 99));
        shared_->disown(ipv4(192, 0, 2, 99));
    }
    void rule_for_ipv6() { // RFC 3849: nobody's
        for (const char* text : {"2001:db8::99", "ff02::1:ff00:99"}) {
            shared_->own(*ipv6::parse(text));
            shared_->disown(*ipv6::parse(text));
        }
    }
    void rule_for_flow() {
        const steered_flow flow{6, ipv4(192, 0, 2, 99), 9, ipv4(192, 0, 2, 98), 9};
        const int error = shared_->own_flow(flow);
        if (error != 0) throw std::system_error(error, std::generic_category(), "the device refused it");
        shared_->disown_flow(flow);
    }
    void rule_for_group() { // MCAST-TEST-NET (RFC 5771)
        shared_->own(ipv4(233, 252, 0, 99));
        shared_->disown(ipv4(233, 252, 0, 99));
    }
    /// Frames to ourselves, of an EtherType that switches drop at the next host at the latest.
    void send_burst(std::uint32_t size) {
        std::array<packet, 32> burst;
        for (packet& p : burst) {
            p.head = the_port_->pool().allocate_buffer();
            std::byte* at = p.head.append(size);
            std::memset(at, 0, size);
            the_port_->mac().store(at);
            the_port_->mac().store(at + 6);
            store_be16(at + 12, experimental);
        }
        needs(the_port_->transmit(burst) == burst.size(), "the port took less than the burst");
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        std::array<packet, 32> back;
        while (the_port_->unsent() != 0 && std::chrono::steady_clock::now() < until) returned_ += the_port_->receive(back);
        needs(the_port_->unsent() == 0, "sends have not completed within a second");
    }
    void send() {
        needs(shared_->link_up(), "the link is down: plug in a cable and try again");
        send_burst(64);
        send_burst(1000);
        const auto& counts = the_port_->verbs_statistics();
        needs(counts.failed_sends == 0, "sends completed with errors");
        detail_ = fmt::format("{} doorbells, {} signalled, {} inline, {} came back", counts.doorbells, counts.signalled, counts.inlined,
                              returned_);
    }
    void sleep() {
        const bool quiet = the_port_->prepare_sleep();
        pollfd wait{the_port_->wake_fd(), POLLIN, 0};
        const int woken = quiet ? ::poll(&wait, 1, 50) : 0;
        the_port_->finish_sleep();
        detail_ = !quiet ? "packets were waiting" : woken != 0 ? "woken by a packet" : "quiet for 50 ms";
    }
    void restart() {
        shared_->pretend_failure();
        std::array<packet, 32> in;
        the_port_->receive(in);
        needs(the_port_->usable() && the_port_->verbs_statistics().restarts == 1, "the walk through RESET failed");
        if (shared_->link_up()) send_burst(64);
    }
    void spread() { verbs_device two(options(2)); }

    const verbs::verbs_api& api_;
    verbs::device device_;
    std::uint8_t port_;
    report report_;
    std::string detail_;
    std::optional<verbs::protection_domain> domain_;
    std::shared_ptr<verbs_device> shared_;
    std::unique_ptr<verbs_port> the_port_;
    std::size_t returned_ = 0;
};

const char* word(verdict v) {
    switch (v) {
    case verdict::works: return "works";
    case verdict::lacking: return "lacking";
    case verdict::unproved: return "unproved";
    case verdict::fails: break;
    }
    return "FAILS";
}

} // namespace

bool report::usable() const {
    for (const finding& f : findings)
        if (f.how == verdict::fails) return false;
    return true;
}

report examine(const std::string& device, std::uint8_t port, const verbs::verbs_api& api) {
    return examiner(device, port, api).run();
}

std::string as_text(const report& r) {
    std::string text = fmt::format("cw-verbs-check: {}\n\n", r.device);
    for (const auto& [name, value] : r.facts) text += fmt::format("  {:<18} {}\n", name, value);
    text += "\n";
    for (const finding& f : r.findings) text += fmt::format("  {:<9} {}{}\n", word(f.how), f.what, f.detail.empty() ? "" : ": " + f.detail);
    const bool unproved = std::ranges::any_of(r.findings, [](const finding& f) { return f.how == verdict::unproved; });
    text += fmt::format("\n{}\n", !r.usable() ? "Something that --net=verbs needs fails here: see above."
                                  : unproved  ? "Nothing that --net=verbs needs fails here, and not all of it is proved: see above."
                                              : "Everything that --net=verbs needs works here.");
    return text;
}

} // namespace corewire::verbs_check
