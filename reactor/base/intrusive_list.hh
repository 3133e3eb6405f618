// A circular doubly linked list whose links live in the elements: no allocation, O(1) unlink from whichever
// list an element is on. Elements unlink themselves when destroyed, so a dead waiter is never woken.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <cstddef>

namespace corewire {

/// Base class of anything that can stand in an intrusive_list. Neither copied nor moved.
class list_hook {
public:
    list_hook() noexcept = default;
    list_hook(const list_hook&) = delete;
    list_hook& operator=(const list_hook&) = delete;
    ~list_hook() { unlink(); }

    bool linked() const noexcept { return next_ != nullptr; }
    void unlink() noexcept {
        if (next_ == nullptr) return;
        prev_->next_ = next_;
        next_->prev_ = prev_;
        next_ = prev_ = nullptr;
    }

private:
    template <typename T>
    friend class intrusive_list;
    void link_before(list_hook& at) noexcept {
        CW_DEBUG_ASSERT(!linked(), "an element can be on one list only");
        prev_ = at.prev_;
        next_ = &at;
        at.prev_->next_ = this;
        at.prev_ = this;
    }
    list_hook* next_ = nullptr;
    list_hook* prev_ = nullptr;
};

/// The list. T derives from list_hook. Destroying a list unlinks its elements and destroys none of them.
template <typename T>
class intrusive_list {
public:
    intrusive_list() noexcept { root_.next_ = root_.prev_ = &root_; }
    intrusive_list(const intrusive_list&) = delete;
    intrusive_list& operator=(const intrusive_list&) = delete;
    ~intrusive_list() {
        clear();
        root_.next_ = root_.prev_ = nullptr;
    }

    bool empty() const noexcept { return root_.next_ == &root_; }
    T& front() noexcept { return static_cast<T&>(*root_.next_); }
    T& back() noexcept { return static_cast<T&>(*root_.prev_); }
    void push_back(T& element) noexcept { static_cast<list_hook&>(element).link_before(root_); }
    void push_front(T& element) noexcept { static_cast<list_hook&>(element).link_before(*root_.next_); }
    /// The first element, unlinked. The list must not be empty.
    T& pop_front() noexcept {
        CW_DEBUG_ASSERT(!empty(), "pop_front() of an empty list");
        list_hook* const first = root_.next_;
        root_.next_ = first->next_;
        first->next_->prev_ = &root_;
        first->next_ = first->prev_ = nullptr;
        return static_cast<T&>(*first);
    }
    void clear() noexcept {
        while (!empty()) root_.next_->unlink();
    }
    /// Moves all elements of `other` behind ours, keeping their order.
    void splice_back(intrusive_list& other) noexcept {
        if (other.empty()) return;
        list_hook* first = other.root_.next_;
        list_hook* last = other.root_.prev_;
        other.root_.next_ = other.root_.prev_ = &other.root_;
        first->prev_ = root_.prev_;
        root_.prev_->next_ = first;
        last->next_ = &root_;
        root_.prev_ = last;
    }
    std::size_t count() const noexcept {
        std::size_t n = 0;
        for (const list_hook* h = root_.next_; h != &root_; h = h->next_) ++n;
        return n;
    }
    /// Calls `visit(T&)` for each element; `visit` may unlink the element it is given, and no other.
    template <typename Visit>
    void for_each(Visit&& visit) {
        for (list_hook* h = root_.next_; h != &root_;) {
            list_hook* following = h->next_;
            visit(static_cast<T&>(*h));
            h = following;
        }
    }

private:
    list_hook root_;
};

} // namespace corewire
