// What a test of rdma/channel stands on: two RDMA devices that reach each other, and time. Real ones (tests/vm/guest/rxe_fabric.hh) or
// fakes (fake_fabric.hh): the same cases run on both.
#pragma once

#include <corewire/rdma/channel/context.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <functional>
#include <memory>

namespace corewire::test {

constexpr ipv4 address_of_client{192, 0, 2, 1}; ///< of the one device
constexpr ipv4 address_of_server{192, 0, 2, 2}; ///< of the other
inline ipv6 address6_of_client() { return *ipv6::parse("2001:db8:1::1"); }
inline ipv6 address6_of_server() { return *ipv6::parse("2001:db8:1::2"); }

/// Something that goes on beside the test, on a stack of its own. Destroyed, it is waited for.
class companion {
public:
    virtual ~companion() = default;
    /// For itself: lets the others do something.
    virtual void pause() = 0;
    virtual time_point now() const = 0;
};

class fabric {
public:
    virtual ~fabric() = default;
    virtual reactor& loop() = 0;
    virtual const verbs::verbs_api& verbs() const = 0;
    virtual const verbs::cm_api& cm() const = 0;
    /// One turn of the loop, and of whatever runs beside it.
    virtual void turn() = 0;
    /// What runs beside the loop goes on; the loop does not.
    virtual void turn_beside() = 0;
    /// It takes nothing any more, and tells nobody.
    virtual void silence(ibv_qp* pair) = 0;
    virtual std::unique_ptr<companion> start(std::function<void(companion&)> body) = 0;

protected:
    /// Calls of the code under test that threads of its own make, or are about to.
    virtual std::size_t calls_under_way() { return 0; }
};

} // namespace corewire::test
