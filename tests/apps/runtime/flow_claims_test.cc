// Connections that are claimed of a device that takes its time: by a helper, in order, and the shard goes on.
// ctest: timeout=60
#include <corewire/apps/runtime/flow_claims.hh>

#include "tests/reactor/shard/some_shards.hh"

#include <boost/test/unit_test.hpp>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

using namespace corewire;

namespace {

/// Answers when the test lets it, and notes what it was asked.
class slow_device final : public flow_owner {
public:
    int own_flow(const steered_flow& f) noexcept override {
        std::unique_lock lock(mutex_);
        on_shard_ = on_shard_ || std::this_thread::get_id() == shard;
        begun_ = true;
        gate_.wait(lock, [this] { return open_; });
        said_ += "+" + std::to_string(f.local_port) + " ";
        return f.local_port == refused ? EADDRINUSE : 0;
    }
    void disown_flow(const steered_flow& f) noexcept override {
        const std::lock_guard lock(mutex_);
        on_shard_ = on_shard_ || std::this_thread::get_id() == shard;
        said_ += "-" + std::to_string(f.local_port) + " ";
    }
    void let(bool answer) {
        const std::lock_guard lock(mutex_);
        open_ = answer;
        gate_.notify_all();
    }
    std::string said() const {
        const std::lock_guard lock(mutex_);
        return said_;
    }
    bool begun() const {
        const std::lock_guard lock(mutex_);
        return begun_;
    }
    bool was_on_shard() const {
        const std::lock_guard lock(mutex_);
        return on_shard_;
    }
    std::thread::id shard;
    std::uint16_t refused = 0;

private:
    mutable std::mutex mutex_;
    std::condition_variable gate_;
    bool open_ = false, begun_ = false, on_shard_ = false;
    std::string said_;
};

steered_flow flow(std::uint16_t port) {
    return {.local = ipv4(10, 0, 0, 1), .local_port = port, .remote = ipv4(10, 0, 0, 2), .remote_port = 80};
}

/// On one shard of a runtime: a device, claims of it, and what was answered.
struct world {
    world() : device(std::make_shared<slow_device>()), claims(device, [this](const steered_flow& f, int error) {
        answers += std::to_string(f.local_port) + "=" + std::to_string(error) + " ";
    }, [this](const steered_flow& f) {
        const std::string back = std::to_string(f.local_port) + " ";
        given_back += back;
        BOOST_TEST(device->said().find("-" + back) != std::string::npos, "too early");
    }) {
        device->shard = std::this_thread::get_id();
    }
    std::shared_ptr<slow_device> device;
    std::string answers, given_back;
    flow_claims claims;
    task<> until_said(std::string what) {
        while (device->said() != what) co_await sleep_for(std::chrono::milliseconds{1});
    }
    task<> until_answered(std::string what) {
        while (answers != what) co_await sleep_for(std::chrono::milliseconds{1});
    }
};

task<> leave_in_the_middle(std::shared_ptr<slow_device> device) {
    std::string given_back;
    auto claims = std::make_unique<flow_claims>(device, [](const steered_flow&, int) {},
                                                [&](const steered_flow& f) { given_back += std::to_string(f.local_port) + " "; });
    BOOST_TEST(claims->claim(flow(1)) == EINPROGRESS); // a helper is at it, and goes on
    while (!device->begun()) co_await sleep_for(std::chrono::milliseconds{1});
    static_cast<void>(claims->claim(flow(2)));
    claims->release(flow(2));
    claims.reset();
    BOOST_TEST(device->said() == "-2 ");
    BOOST_TEST(given_back == "2 ");
    device->let(true);
}

} // namespace

BOOST_AUTO_TEST_SUITE(flow_claims)

BOOST_AUTO_TEST_CASE(the_shard_goes_on_while_the_device_takes_its_time) {
    shard_test::run_on_first([]() -> task<> {
        world w;
        for (const std::uint16_t port : {1, 2, 3}) BOOST_TEST(w.claims.claim(flow(port)) == EINPROGRESS);
        for (int i = 0; i < 3; ++i) co_await sleep_for(std::chrono::milliseconds{1}); // as other work would
        BOOST_TEST(w.answers.empty());
        w.device->let(true);
        co_await w.until_answered("1=0 2=0 3=0 ");
        for (const std::uint16_t port : {1, 2, 3}) BOOST_TEST(w.claims.release(flow(port)));
        BOOST_TEST(w.given_back.empty()); // they still come to us
        co_await w.until_said("+1 +2 +3 -1 -2 -3 ");
        while (w.given_back != "1 2 3 ") co_await sleep_for(std::chrono::milliseconds{1});
        BOOST_TEST(!w.device->was_on_shard());
    }, 1);
}

BOOST_AUTO_TEST_CASE(what_is_given_up_before_its_answer_is_not_answered_and_a_new_claim_of_it_is) {
    shard_test::run_on_first([]() -> task<> {
        world w;
        BOOST_TEST(w.claims.claim(flow(1)) == EINPROGRESS);
        BOOST_TEST(!w.claims.release(flow(1)));
        BOOST_TEST(w.claims.claim(flow(1)) == EINPROGRESS);
        BOOST_TEST(w.claims.claim(flow(2)) == EINPROGRESS);
        w.device->let(true);
        co_await w.until_answered("1=0 2=0 "); // once
        BOOST_TEST(w.device->said() == "+1 -1 +1 +2 "); // the last word on each is that it is ours
    }, 1);
}

BOOST_AUTO_TEST_CASE(a_refusal_is_answered_with_its_errno_and_costs_the_others_nothing) {
    shard_test::run_on_first([]() -> task<> {
        world w;
        w.device->refused = 2;
        w.device->let(true);
        for (const std::uint16_t port : {1, 2, 3}) BOOST_TEST(w.claims.claim(flow(port)) == EINPROGRESS);
        co_await w.until_answered("1=0 2=" + std::to_string(EADDRINUSE) + " 3=0 ");
    }, 1);
}

BOOST_AUTO_TEST_CASE(where_all_helpers_are_busy_it_waits_for_one) {
    runtime_options options = shard_test::shards(1);
    options.blocking = {.threads = 1, .queue = 1};
    shard_test::run_on_first([]() -> task<> {
        world busy, w;
        BOOST_TEST(busy.claims.claim(flow(1)) == EINPROGRESS); // has the helper
        world queued;
        BOOST_TEST(queued.claims.claim(flow(2)) == EINPROGRESS); // has the queue
        BOOST_TEST(w.claims.claim(flow(3)) == EINPROGRESS);
        for (int i = 0; i < 3; ++i) co_await sleep_for(std::chrono::milliseconds{1});
        BOOST_TEST(w.answers.empty());
        for (world* each : {&busy, &queued, &w}) each->device->let(true);
        co_await w.until_answered("3=0 ");
    }, options);
}

BOOST_AUTO_TEST_CASE(at_the_end_everything_is_given_back_that_waits_for_it) {
    auto device = std::make_shared<slow_device>();
    shard_test::run_on_first([&device] { return leave_in_the_middle(device); }, 1);
    BOOST_TEST(device->said() == "-2 +1 ");
    BOOST_TEST(device.use_count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
