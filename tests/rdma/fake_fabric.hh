// Two fake NICs and a virtual clock. What goes on beside the test has a thread as its stack, but they take turns: at any time one of
// them runs, and who is next does not depend on chance.
#pragma once

#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/verbs/waiting_calls.hh>

#include "tests/rdma/fabric.hh"
#include "tests/support/virtual_clock.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace corewire::test {

class fake_fabric : public fabric {
public:
    ~fake_fabric() override {
        for (const fake::nic* each : {&first_, &second_}) BOOST_TEST(each->violations().empty());
    }
    reactor& loop() override { return loop_; }
    const verbs::verbs_api& verbs() const override { return fake::api(); }
    const verbs::cm_api& cm() const override { return fake::cm(); }
    void turn() override {
        step();
        // Threads have no virtual time: none passes while one of them could go on, however long the kernel lets it wait for a CPU.
        const bool stands = calls_go_on();
        if (!stands) clock_.advance(std::chrono::microseconds{1});
        if (loop_.poll_once()) return;
        if (stands) return std::this_thread::yield();
        constexpr duration longest = std::chrono::milliseconds{1}; // rdma_cm's events are looked for that often, without a timer
        clock_.advance_to(std::min(loop_.timers().next_expiry(), clock_.now() + longest));
    }
    void turn_beside() override {
        step();
        clock_.advance(std::chrono::microseconds{1});
    }
    std::unique_ptr<companion> start(std::function<void(companion&)> body) override {
        return std::make_unique<in_turn>(*this, std::move(body));
    }
    void silence(ibv_qp* pair) override {
        for (fake::nic* each : {&first_, &second_}) each->mute_queue_pair(pair->qp_num);
    }
    fake::nic& first() { return first_; }
    fake::nic& second() { return second_; }

private:
    class in_turn final : public companion {
    public:
        in_turn(fake_fabric& in, std::function<void(companion&)> body)
            : in_(in), thread_([this, body = std::move(body)] {
                  await(whose::thread);
                  body(*this);
                  give(whose::nobody);
              }) {
            in_.companions_.push_back(this);
        }
        ~in_turn() override {
            while (!ended_) {
                in_.clock_.advance(std::chrono::milliseconds{1});
                step();
            }
            std::erase(in_.companions_, this);
            thread_.join();
        }
        void step() {
            if (ended_) return;
            give(whose::thread);
            ended_ = await(whose::test, whose::nobody) == whose::nobody;
        }
        void pause() override {
            give(whose::test);
            await(whose::thread);
        }
        time_point now() const override { return in_.clock_.now(); }

    private:
        enum class whose : std::uint8_t { test, thread, nobody };
        void give(whose next) {
            const std::lock_guard guard(mutex_);
            turn_ = next;
            changed_.notify_all();
        }
        whose await(whose one) { return await(one, one); }
        whose await(whose one, whose other) {
            std::unique_lock guard(mutex_);
            changed_.wait(guard, [&] { return turn_ == one || turn_ == other; });
            return turn_;
        }

        fake_fabric& in_;
        bool ended_ = false; ///< the test's
        std::mutex mutex_;
        std::condition_variable changed_;
        whose turn_ = whose::test;
        std::thread thread_;
    };
    static ibv_gid verbs_gid(ipv4 address) {
        ibv_gid gid{};
        gid.raw[10] = gid.raw[11] = 0xff;
        store_be32(reinterpret_cast<std::byte*>(gid.raw + 12), address.value());
        return gid;
    }
    fake::nic_options options_of(const char* name, mac_address mac, ipv4 address, const ipv6& second) {
        // Each address stands in the table in both versions of RoCE, as that of a NIC has it.
        const fake::nic_gid first_version{verbs_gid(address), IBV_GID_TYPE_ROCE_V1};
        fake::nic_gid six;
        second.store(reinterpret_cast<std::byte*>(six.gid.raw));
        return {.name = name, .mac = mac, .addresses = {address}, .more_gids = {first_version, six},
                .clock = [this] { return clock_.now(); }};
    }
    /// Some call is neither held by a NIC nor waits for a thread that is.
    bool calls_go_on() {
        const std::size_t begun = std::min<std::size_t>(calls_under_way(), verbs::waiting_calls::usual_threads);
        return begun > first_.ways_awaited() + second_.ways_awaited();
    }
    void step() {
        for (std::size_t i = 0; i < companions_.size(); ++i) companions_[i]->step();
    }

    virtual_clock clock_;
    fake::nic first_{options_of("fake_a", mac_address(0x02'00'00'00'00'0a), address_of_client, address6_of_client())};
    fake::nic second_{options_of("fake_b", mac_address(0x02'00'00'00'00'0b), address_of_server, address6_of_server())};
    reactor loop_{{.clock = &clock_}};
    std::vector<in_turn*> companions_;
};

} // namespace corewire::test
