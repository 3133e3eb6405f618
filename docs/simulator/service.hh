// A service as it would run on a machine: nothing in it knows of a simulator.
#pragma once

#include <corewire/task.hh>
#include <corewire/tcp.hh>

#include <array>
#include <string>
#include <system_error>

namespace example {

namespace cw = corewire;

/// Answers each connection with the sum of its bytes.
inline cw::task<> sum_up(cw::tcp_stream peer) {
    std::uint64_t sum = 0;
    while (auto data = co_await peer.read())
        for (const std::byte b : data.bytes()) sum += std::to_integer<unsigned>(b);
    co_await peer.write(std::to_string(sum));
    co_await peer.close();
}

inline cw::task<> serve(std::uint16_t port) {
    auto listener = cw::tcp_listener::bind({cw::ipv4::any(), port});
    for (;;) {
        cw::tcp_stream peer = co_await listener.accept();
        cw::spawn(sum_up(std::move(peer)));
    }
}

/// Asks for the sum of `count` bytes, and tries again until it has an answer.
inline cw::task<std::string> ask(cw::socket_address server, std::size_t count, unsigned tries) {
    for (;;) {
        std::string answer;
        try {
            auto peer = co_await cw::tcp_stream::connect(server);
            const std::string bytes(count, '\1');
            co_await peer.write(bytes);
            peer.shutdown();
            while (auto data = co_await peer.read())
                for (const std::byte b : data.bytes()) answer += std::to_integer<char>(b);
        } catch (const std::system_error&) {
            if (--tries == 0) throw;
            answer.clear();
        }
        if (!answer.empty()) co_return answer;
        co_await cw::sleep_for(std::chrono::seconds{1});
    }
}

} // namespace example
