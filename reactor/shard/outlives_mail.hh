// What messages on their way may point at when its owner goes at shutdown: kept by its shard until no mail is left anywhere.
#pragma once

#include <memory>

namespace corewire::detail {

class outlives_mail {
public:
    outlives_mail() = default;
    outlives_mail(const outlives_mail&) = delete;
    outlives_mail& operator=(const outlives_mail&) = delete;
    virtual ~outlives_mail() = default;

private:
    friend void keep_until_no_mail(std::unique_ptr<outlives_mail>) noexcept;
    friend struct kept_until_no_mail;
    std::unique_ptr<outlives_mail> next_;
};

/// On a shard of a runtime that stops. It is destroyed on this thread, when no loop of the runtime runs any more and all rings are empty.
void keep_until_no_mail(std::unique_ptr<outlives_mail> what) noexcept;

/// A shard's.
struct kept_until_no_mail {
    std::unique_ptr<outlives_mail> first;
    kept_until_no_mail() = default;
    kept_until_no_mail(const kept_until_no_mail&) = delete;
    ~kept_until_no_mail() {
        while (first) first = std::move(first->next_);
    }
};

} // namespace corewire::detail
