#include <corewire/apps/runtime/flow_claims.hh>

#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/task/sleep.hh>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace corewire {

flow_claims::flow_claims(std::shared_ptr<flow_owner> owner, std::function<void(const steered_flow&, int)> answer,
                         std::function<void(const steered_flow&)> given_back)
    : owner_(std::move(owner)), answer_(std::move(answer)), given_back_(std::move(given_back)) {}

flow_claims::~flow_claims() {
    tasks_.destroy_all(); // a helper that is at it goes on, and its owner lives as long
    give_back_here();
}

void flow_claims::give_back_here() noexcept {
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        if (waiting_[i].number != 0) continue;
        owner_->disown_flow(waiting_[i].flow);
        if (i >= in_hand_) given_back_(waiting_[i].flow);
    }
    waiting_.clear();
}

int flow_claims::claim(const steered_flow& flow) noexcept {
    try {
        const std::size_t needed = waiting_.size() + claimed_ + 2; // this claim, and all that may be given back
        if (waiting_.capacity() < needed) waiting_.reserve(std::max(needed, 2 * waiting_.capacity()));
        asked_[flow] = ++last_;
    } catch (const std::bad_alloc&) {
        return ENOBUFS;
    }
    waiting_.push_back({flow, last_});
    ++claimed_;
    if (!working_) {
        try {
            working_ = true;
            tasks_.spawn(work());
        } catch (const std::bad_alloc&) {
            working_ = false;
            waiting_.pop_back();
            asked_.erase(flow);
            --claimed_;
            return ENOBUFS;
        }
    }
    return EINPROGRESS;
}

bool flow_claims::release(const steered_flow& flow) noexcept {
    const bool answered = asked_.erase(flow) == 0;
    waiting_.push_back({flow});
    --claimed_;
    if (working_) return answered;
    try {
        working_ = true;
        tasks_.spawn(work());
    } catch (const std::bad_alloc&) { // no helper either, then
        working_ = false;
        give_back_here();
    }
    return answered;
}

std::vector<flow_claims::step> flow_claims::take(flow_owner& owner, std::vector<step> steps) noexcept {
    for (step& each : steps) {
        if (each.number == 0) owner.disown_flow(each.flow);
        else each.result = owner.own_flow(each.flow);
    }
    return steps;
}

task<> flow_claims::work() {
    while (!waiting_.empty()) {
        bool busy = false;
        try {
            const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(batch, waiting_.size()));
            auto call = run_blocking([owner = owner_, steps = std::vector<step>(waiting_.begin(), end)]() mutable {
                return take(*owner, std::move(steps));
            });
            in_hand_ = static_cast<std::size_t>(end - waiting_.begin());
            const std::vector<step> done = co_await call;
            in_hand_ = 0;
            waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done.size()));
            for (const step& each : done) {
                if (each.number == 0) {
                    given_back_(each.flow);
                    continue;
                }
                const auto asked = asked_.find(each.flow);
                if (asked == asked_.end() || asked->second != each.number) continue;
                asked_.erase(asked);
                if (each.result != 0) --claimed_;
                answer_(each.flow, each.result);
            }
        } catch (const std::exception&) { // all helpers have too much to do, or there is no memory: nothing was done
            in_hand_ = 0;
            busy = true;
        }
        if (busy) co_await sleep_for(std::chrono::milliseconds{1});
    }
    working_ = false;
}

} // namespace corewire
