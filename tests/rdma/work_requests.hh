// Single work requests and completions, as tests of queue pairs want them: on the fake NICs and on real devices.
#pragma once

#include <corewire/rdma/verbs/queue_pair.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <vector>

namespace corewire::test {

inline int post_receive(verbs::queue_pair& to, ibv_sge at, std::uint64_t id = 0) {
    ibv_recv_wr wr{id, nullptr, &at, 1};
    ibv_recv_wr* bad = nullptr;
    return to.post_receive(&wr, &bad);
}

/// `patch(wr)` turns a signalled SEND into what is wanted.
template <typename Patch>
int post_send(verbs::queue_pair& to, ibv_sge at, Patch patch) {
    ibv_send_wr wr{};
    wr.sg_list = &at;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    patch(wr);
    ibv_send_wr* bad = nullptr;
    return to.post_send(&wr, &bad);
}

/// What has completed by now.
inline std::vector<ibv_wc> completions(verbs::completion_queue& of) {
    std::array<ibv_wc, 64> out;
    const int n = of.poll(out);
    BOOST_REQUIRE(n >= 0);
    return {out.begin(), out.begin() + n};
}

/// The one completion that there is.
inline ibv_wc only_completion(verbs::completion_queue& of) {
    const auto all = completions(of);
    BOOST_REQUIRE(all.size() == 1u);
    return all[0];
}

} // namespace corewire::test
