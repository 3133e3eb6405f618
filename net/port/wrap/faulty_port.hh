// A wrapper that does to packets what networks do: drops, flips bits, doubles, changes the order, by a seed or by number.
// On the shard of the port inside. Bound: one packet held back a direction, and never longer than until the next one
// passes or `receive()` finds nothing else. Losses alone, by chance or by number, leave bursts together: how many packets pass before
// the next one that is lost is known. Frames lost on the way out are counted as transmit_dropped, too.
#pragma once

#include <corewire/net/port/wrap/wrapped_port.hh>
#include <corewire/reactor/base/random.hh>

namespace corewire {

struct faults {
    std::uint64_t drop_every = 0; ///< every n-th packet; 0: none
    double drop = 0;              ///< probabilities, 0 to 1, of each packet
    double corrupt = 0;           ///< one bit, anywhere in the frame
    double duplicate = 0;
    double reorder = 0;           ///< changes places with the next one

    /// Packets are looked at one by one.
    bool singly() const noexcept { return corrupt > 0 || duplicate > 0 || reorder > 0; }
    bool any() const noexcept { return singly() || drop > 0 || drop_every != 0; }
};

struct fault_counts {
    std::uint64_t packets = 0, dropped = 0, corrupted = 0, duplicated = 0, reordered = 0;
};

class faulty_port final : public wrapped_port {
public:
    struct options {
        std::uint64_t seed = 1;
        faults on_receive;
        faults on_transmit;
    };
    /// Where frames are damaged on the way out, the port inside completes no checksums and cuts no segments: its user does.
    faulty_port(std::unique_ptr<port> inner, const options& o);

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override;

    const fault_counts& received() const noexcept { return in_.counts; }
    const fault_counts& transmitted() const noexcept { return out_.counts; }

private:
    struct one_way {
        one_way(const faults& f, std::uint64_t seed) noexcept : what(f), random(seed), spared(drawn_gap()) {}
        std::uint64_t drawn_gap() noexcept;
        std::uint64_t before_the_next_loss() const noexcept;
        void passed(std::uint64_t packets) noexcept;
        bool loses() noexcept;

        faults what;
        random_generator random;
        fault_counts counts;
        packet held; ///< to go behind the next one
        bool holding = false;
        std::uint64_t spared; ///< by chance, before the next one that is lost by chance
    };
    void damage(one_way& w, packet& p) noexcept;
    packet copy_of(const packet& p) noexcept;
    bool send(packet& p) { return wrapped_port::transmit({&p, 1}) == 1; }
    bool pass(packet& p);
    void let_go() noexcept;
    std::size_t receive_singly(std::span<packet> out);
    std::size_t transmit_singly(std::span<packet> burst);
    std::size_t transmit_in_runs(std::span<packet> burst);
    void count_losses() noexcept;

    one_way in_, out_;
    packet second_; ///< a received duplicate that waits for its turn
    bool doubling_ = false;
};

} // namespace corewire
