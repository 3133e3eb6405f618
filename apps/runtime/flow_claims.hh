// Connections that we open in shared mode, as a flow_owner that may keep its caller waiting (a NIC's flow rules are commands to its
// firmware) has them: each is claimed and given back by a helper, in order, and the shard goes on.
//
//     claim() --.                     .--> helper: own_flow(), disown_flow(), up to `batch` at a time --> answer(): the SYN may go
//     release() +--> waiting, in line +
//
// One shard's, of a runtime; one helper at a time. Bounds: two entries for each connection that is not closed yet.
#pragma once

#include <corewire/net/port/flow_owner.hh>
#include <corewire/reactor/task/task_group.hh>

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace corewire {

class flow_claims {
public:
    static constexpr std::size_t batch = 64;

    /// `answer(flow, error)`: what became of a claim that nobody has released meanwhile, on the shard; 0, or own_flow()'s errno.
    /// `given_back(flow)`: what was released does not come to us any more; on the shard.
    flow_claims(std::shared_ptr<flow_owner> owner, std::function<void(const steered_flow&, int)> answer,
                std::function<void(const steered_flow&)> given_back);
    /// What still waits to be given back is given back here and now; of what a helper has in hand then nothing is told.
    ~flow_claims();
    flow_claims(const flow_claims&) = delete;
    flow_claims& operator=(const flow_claims&) = delete;

    /// EINPROGRESS: it will be answered. ENOBUFS: no memory.
    [[nodiscard]] int claim(const steered_flow& flow) noexcept;
    /// True if it had been claimed with success; false: it has not been answered yet, and will not be.
    bool release(const steered_flow& flow) noexcept;

private:
    struct step {
        steered_flow flow{};
        std::uint64_t number = 0; ///< of a claim; 0: it is given back
        int result = 0;
    };
    void give_back_here() noexcept;
    task<> work();
    static std::vector<step> take(flow_owner& owner, std::vector<step> steps) noexcept;

    std::shared_ptr<flow_owner> owner_;
    std::function<void(const steered_flow&, int)> answer_;
    std::function<void(const steered_flow&)> given_back_;
    std::vector<step> waiting_; ///< has room for giving back all that is claimed: release() allocates nothing
    std::size_t in_hand_ = 0;   ///< of those, the first ones: a helper is at them
    std::size_t claimed_ = 0;   ///< for which there will be a release()
    std::map<steered_flow, std::uint64_t> asked_; ///< claims without an answer
    std::uint64_t last_ = 0;
    bool working_ = false;
    task_group tasks_{"flow rules"};
};

} // namespace corewire
