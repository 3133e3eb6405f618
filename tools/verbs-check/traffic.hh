// What only a frame that arrives can prove. The device is opened twice: one user sends, another receives what its own rules take; NICs
// that hand frames of one user to another of the same host (mlx5 from its second user on) need no cable and no second host for it.
//
//     sender: queue pair without rules --frame to our own MAC--> device --rules of the receiver--> its queue pair
//
// Each function tries one thing, and throws a sentence with the reason and the remedy. Frames go to addresses that are nobody's
// (RFC 5737, RFC 3849) and to our own MAC: no other host has any use for them.
#pragma once

#include <corewire/rdma/raw/verbs_port.hh>

#include <stdexcept>
#include <string>
#include <vector>

namespace corewire::verbs_check {

/// It can't be told here whether it works.
struct not_proved : std::runtime_error {
    using std::runtime_error::runtime_error;
};
/// Worse than if the device did not have it at all.
struct dangerous : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class traffic {
public:
    /// Opens the sender.
    traffic(std::string device, std::uint8_t port, const verbs::verbs_api& api);
    ~traffic();

    // Each returns what there is to say beside that it works.
    std::string comes_back();        ///< throws not_proved when nothing does; then the others needn't be tried
    std::string whole_packet();      ///< as long as the MTU lets it be
    std::string wakes_a_sleeper();
    std::string checksums_completed();
    std::string checksums_judged();
    std::string large_segment();
    std::string only_what_is_ours();
    std::string one_flow();
    std::string one_vlan();
    std::string spread_by_hash();
    std::string rules_outlive_a_reset(); ///< a queue pair that is put back and started again hears what its rules took before

private:
    using frames = std::vector<std::vector<std::byte>>;
    struct receiver;
    receiver open(unsigned queues = 1, std::uint16_t vlan = 0) const;
    bool send(packet&& p);
    bool send(byte_span frame, offload flags = offload::none);
    packet filled(byte_span frame, offload flags);
    frames sent_to(receiver& to, std::size_t count, duration patience, unsigned queue = 0, offload* flags = nullptr);
    std::vector<std::byte> bare(std::uint32_t size) const;
    std::vector<std::byte> datagram(const net_address& to, std::uint16_t source_port, std::uint16_t port = 9) const;

    std::string name_;
    std::uint8_t port_;
    const verbs::verbs_api& api_;
    std::shared_ptr<verbs_device> sending_;
    std::unique_ptr<verbs_port> sender_;
};

} // namespace corewire::verbs_check
