// What every wrapper round a port shares: it owns the port inside, answers for it, and passes all on that it does not
// itself change. On the shard of the port inside. Wrappers stack: tracing round faulty round xdp.
//
// statistics() of a wrapper are a copy of the inner port's, taken at each burst.
#pragma once

#include <corewire/net/port/port.hh>

#include <memory>
#include <utility>

namespace corewire {

class wrapped_port : public port {
public:
    explicit wrapped_port(std::unique_ptr<port> inner) : inner_(std::move(inner)) {
        pool_ = &inner_->pool();
        capabilities_ = inner_->capabilities();
        mac_ = inner_->mac();
        mtu_ = inner_->mtu();
        name_ = inner_->name();
    }

    std::size_t receive(std::span<packet> out) override {
        const std::size_t n = inner_->receive(out);
        statistics_ = inner_->statistics();
        return n;
    }
    std::size_t transmit(std::span<packet> burst) override {
        const std::size_t n = inner_->transmit(burst);
        statistics_ = inner_->statistics();
        return n;
    }
    bool prepare_sleep() override { return inner_->prepare_sleep(); }
    void finish_sleep() override { inner_->finish_sleep(); }
    int wake_fd() const override { return inner_->wake_fd(); }
    void keep(const std::shared_ptr<const void>& memory) override { inner_->keep(memory); }

    port& inner() noexcept { return *inner_; }

private:
    std::unique_ptr<port> inner_;
};

} // namespace corewire
