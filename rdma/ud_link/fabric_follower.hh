// InfiniBand: keeps a ud_device in its link's group. When the subnet's administrator has changed or wants to hear of everything again, it
// is asked once more; what it says of the group then the ports follow, and as long as it refuses or is silent it is asked again.
//
//     device event --> ask --> looked after from 10 ms on --member--> (ports told of another Q_Key, LID, service level)
//                       ^            `--refused, or silent for 5 s--> counted, told --1 s, 2 s ... 30 s--.
//                       `--------------------------------------------------------------------------------'
//
// On the shard that hears the device's events, and gone before its reactor. Where there is no fabric to ask it does nothing.
#pragma once

#include <corewire/rdma/ud_link/ud_device.hh>
#include <corewire/reactor/loop/timer.hh>

#include <functional>
#include <memory>
#include <string>

namespace corewire {

class reactor;

class fabric_follower {
public:
    static constexpr duration first_look = std::chrono::milliseconds{10};
    static constexpr duration patience = std::chrono::seconds{5};
    static constexpr duration first_pause = std::chrono::seconds{1}, longest_pause = std::chrono::seconds{30};

    /// `tell`: the first refusal of a row, and its end, as sentences for a log.
    fabric_follower(std::shared_ptr<ud_device> device, reactor& on, std::function<void(const std::string&)> tell);
    fabric_follower(const fabric_follower&) = delete;
    fabric_follower& operator=(const fabric_follower&) = delete;

    /// What the device has told, beside ud_device::handle().
    void handle(const verbs::device_event& event) noexcept;

private:
    void ask() noexcept;
    void look() noexcept;
    void refused(int error) noexcept;
    template <typename Sentence>
    void tell(Sentence sentence) noexcept;

    struct next_step final : timer {
        explicit next_step(fabric_follower& f) noexcept
            : timer([](timer& t) noexcept {
                  fabric_follower& self = static_cast<next_step&>(t).of;
                  if (self.asked_) self.look();
                  else self.ask();
              }),
              of(f) {}
        fabric_follower& of;
    };

    std::shared_ptr<ud_device> device_;
    reactor& reactor_;
    std::function<void(const std::string&)> tell_;
    bool asked_ = false;  ///< and not answered yet
    bool out_ = false;    ///< the last answer was no member
    time_point give_up_{};
    duration wait_ = first_look, pause_ = first_pause;
    next_step next_{*this};
};

} // namespace corewire
