// A listener whose first accepts fail, as the kernel's do while descriptors or memory are short; then another one's.
#pragma once

#include <corewire/net/socket/provider.hh>

namespace corewire {

class starved_listener final : public listener_backend {
public:
    starved_listener(std::unique_ptr<listener_backend> inner, std::vector<std::errc> failures)
        : inner_(std::move(inner)), failures_(std::move(failures)) {}
    bool start_accept(accept_operation& op) noexcept override {
        if (failed_ == failures_.size()) return inner_->start_accept(op);
        op.error = failures_[failed_++];
        return true;
    }
    void cancel(socket_operation& op) noexcept override { inner_->cancel(op); }
    socket_address local_address() const override { return inner_->local_address(); }
    void close() noexcept override { inner_->close(); }

private:
    std::unique_ptr<listener_backend> inner_;
    std::vector<std::errc> failures_;
    std::size_t failed_ = 0;
};

/// What a program that has run out of something is told.
inline const std::vector<std::errc> out_of_everything{std::errc::too_many_files_open, std::errc::too_many_files_open_in_system,
                                                      std::errc::no_buffer_space, std::errc::not_enough_memory};

} // namespace corewire
