// A program with options, metrics, messages and a thread of its own, by nothing but what is installed. Exit status 0: all of it works.
#include <corewire/app.hh>
#include <corewire/log.hh>
#include <corewire/metrics.hh>
#include <corewire/shard.hh>
#include <corewire/task.hh>

#include <cstdint>
#include <thread>

namespace cw = corewire;

namespace {

constexpr cw::log_event<unsigned> orders_taken{"shop", "orders_taken", cw::log_level::info, "{} orders taken"};

std::uint64_t orders = 0;

cw::task<> keep_shop() {
    cw::metric_group group(cw::metric_registry::current_or_null());
    group.counter("shop_orders_total", "Orders taken.", orders);
    while (!cw::this_shard::stopping().stop_requested()) co_await cw::sleep_for(std::chrono::milliseconds{1});
}

} // namespace

int main(int argc, char** argv) {
    cw::app app("shop", "Takes orders from a thread");
    unsigned wanted = 0;
    app.options().add_option("--orders", wanted, "How many to take").required();
    if (const auto status = app.parse(argc, argv)) return *status;
    unsigned counted = 0;
    std::thread customer([&] {
        for (unsigned i = 0; i < wanted; ++i) counted = app.submit_from_thread(0, [] { return static_cast<unsigned>(++orders); }).get();
        app.submit_from_thread(0, [counted] {
            cw::log_message(orders_taken, counted);
            cw::runtime::current().request_stop();
        });
    });
    const int status = app.run(keep_shop);
    customer.join();
    return status != 0 ? status : counted == wanted ? 0 : 3;
}
