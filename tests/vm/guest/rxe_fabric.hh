// The two rdma_rxe devices of the virtual machine, in real time.
#pragma once

#include "tests/rdma/fabric.hh"
#include "tests/vm/guest/rxe_pair.hh"

#include <chrono>
#include <thread>

namespace corewire::test {

static_assert(address_of_client == address_of_rxe0 && address_of_server == address_of_rxe1);

class rxe_fabric : public fabric {
public:
    reactor& loop() override { return loop_; }
    const verbs::verbs_api& verbs() const override { return verbs::system_api(); }
    const verbs::cm_api& cm() const override { return verbs::system_cm(); }
    void turn() override { loop_.poll_once(); }
    void turn_beside() override { std::this_thread::sleep_for(std::chrono::milliseconds{1}); }
    void silence(ibv_qp* pair) override {
        ibv_qp_attr a{};
        a.qp_state = IBV_QPS_RESET;
        verbs().modify_qp(pair, &a, IBV_QP_STATE);
    }
    std::unique_ptr<companion> start(std::function<void(companion&)> body) override { return std::make_unique<beside>(std::move(body)); }

private:
    /// Asleep while it waits, so that it takes no processor from the device it waits for.
    class beside final : public companion {
    public:
        explicit beside(std::function<void(companion&)> body) : thread_([this, body = std::move(body)] { body(*this); }) {}
        ~beside() override { thread_.join(); }
        void pause() override { std::this_thread::sleep_for(std::chrono::milliseconds{1}); }
        time_point now() const override { return time_point{std::chrono::steady_clock::now().time_since_epoch()}; }

    private:
        std::thread thread_;
    };
    reactor loop_;
};

} // namespace corewire::test
