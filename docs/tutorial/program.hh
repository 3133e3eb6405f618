// docs/tutorial/program.hh
#pragma once
#include "server.hh"
#include "snapshot.hh"

#include <corewire/app.hh>

#include <cstdint>
#include <exception>
#include <string>
namespace cw = corewire;

namespace tutorial {

struct settings {
    std::uint16_t port = 7000;
    std::string snapshot = "store.snapshot";
};

/// One shard's share of the work: accepts from its own queue until the program is asked to stop.
inline cw::task<> serve(store& data, std::uint16_t port) {
    server here(data, 10'000);
    auto listener = cw::tcp_listener::bind({cw::ipv4::any(), port});
    co_await here.run(std::move(listener), cw::this_shard::stopping());
}

/// Shard 0 starts the store with what was saved, has every shard serve, and saves and stops it when all are back.
inline cw::task<> body(settings options) {
    if (cw::this_shard::id() != 0) co_return; // the others serve what shard 0 asks of them
    store data;
    co_await data.start();
    std::exception_ptr failure;
    try {
        snapshots kept(data, options.snapshot);
        co_await kept.load();
        co_await data.parts().invoke_on_all([&data, port = options.port](part&) { return serve(data, port); });
        co_await kept.save();
    } catch (...) {
        failure = std::current_exception(); // the program ends with its sentence, and status 1
    }
    co_await data.stop(); // in any case: what stands on other shards must not go with this frame
    if (failure) std::rethrow_exception(failure);
}

inline int run(int argc, char** argv, settings options) {
    return cw::app("store").run_on_every_core(argc, argv, [options] { return body(options); });
}

} // namespace tutorial
