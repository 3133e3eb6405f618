// Cancellation inside one shard: a stop_source asks, stop_tokens are asked, stop_callbacks are told.
// std::stop_token's shape without its atomics and its heap block. Nothing here may cross shards.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>

namespace corewire {

class stop_source;

/// Told once when its source is asked to stop; unregisters itself when destroyed.
class stop_callback : public list_hook {
public:
    using function = void (*)(stop_callback&) noexcept;
    explicit stop_callback(function on_stop) noexcept : on_stop_(on_stop) {}

private:
    friend class stop_source;
    function on_stop_;
};

/// A copyable reference to a stop_source, or to nothing (never stops). Must not outlive its source.
class stop_token {
public:
    stop_token() noexcept = default;
    bool stop_possible() const noexcept { return source_ != nullptr; }
    inline bool stop_requested() const noexcept;
    /// Registers `callback`; it is called from inside request_stop(). Not called if stop was requested already: ask first.
    inline void subscribe(stop_callback& callback) const noexcept;

private:
    friend class stop_source;
    explicit stop_token(stop_source* source) noexcept : source_(source) {}
    stop_source* source_ = nullptr;
};

class stop_source {
public:
    stop_source() noexcept = default;
    stop_source(const stop_source&) = delete;
    stop_source& operator=(const stop_source&) = delete;

    stop_token token() noexcept { return stop_token{this}; }
    bool stop_requested() const noexcept { return requested_; }
    /// Tells every callback, in the order they were registered. The second call does nothing.
    void request_stop() noexcept {
        if (requested_) return;
        requested_ = true;
        while (!callbacks_.empty()) {
            stop_callback& callback = callbacks_.pop_front();
            callback.on_stop_(callback);
        }
    }

private:
    friend class stop_token;
    intrusive_list<stop_callback> callbacks_;
    bool requested_ = false;
};

inline bool stop_token::stop_requested() const noexcept { return source_ != nullptr && source_->requested_; }
inline void stop_token::subscribe(stop_callback& callback) const noexcept {
    if (source_ != nullptr) source_->callbacks_.push_back(callback);
}

} // namespace corewire
