// A circular doubly linked list whose links live in the elements: no allocation, O(1) unlink from whichever
// list an element is on. Elements unlink themselves when destroyed, so a dead waiter is never woken.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <cstddef>

namespace corewire {

/// The links of an element whose owner takes it off its list before it dies. Neither copied nor moved.
class list_links {
public:
    list_links() noexcept = default;
    list_links(const list_links&) = delete;
    list_links& operator=(const list_links&) = delete;

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
    void link_before(list_links& at) noexcept {
        CW_DEBUG_ASSERT(!linked(), "an element can be on one list only");
        prev_ = at.prev_;
        next_ = &at;
        at.prev_->next_ = this;
        at.prev_ = this;
    }
    list_links* next_ = nullptr;
    list_links* prev_ = nullptr;
};

/// Base class of anything that can stand in an intrusive_list: takes itself off when it dies.
class list_hook : public list_links {
public:
    ~list_hook() { unlink(); }
};

/// The list. T derives from list_hook, or list_links. Destroying a list unlinks its elements and destroys none of them.
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
    void push_back(T& element) noexcept { static_cast<list_links&>(element).link_before(root_); }
    /// `at` is on the list.
    static void insert_before(T& at, T& element) noexcept {
        static_cast<list_links&>(element).link_before(static_cast<list_links&>(at));
    }
    /// The first element, unlinked. The list must not be empty.
    T& pop_front() noexcept {
        CW_DEBUG_ASSERT(!empty(), "pop_front() of an empty list");
        list_links* const first = root_.next_;
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
        list_links* first = other.root_.next_;
        list_links* last = other.root_.prev_;
        other.root_.next_ = other.root_.prev_ = &other.root_;
        first->prev_ = root_.prev_;
        root_.prev_->next_ = first;
        last->next_ = &root_;
        root_.prev_ = last;
    }
    std::size_t count() const noexcept {
        std::size_t n = 0;
        for (const list_links* h = root_.next_; h != &root_; h = h->next_) ++n;
        return n;
    }
    /// The first element of which `condition(T&)` is true; null: there is none.
    template <typename Condition>
    T* find_first(Condition&& condition) {
        for (list_links* h = root_.next_; h != &root_; h = h->next_)
            if (condition(static_cast<T&>(*h))) return static_cast<T*>(h);
        return nullptr;
    }
    /// Calls `visit(T&)` for each element; `visit` may unlink the element it is given, and no other.
    template <typename Visit>
    void for_each(Visit&& visit) {
        for (list_links* h = root_.next_; h != &root_;) {
            list_links* following = h->next_;
            visit(static_cast<T&>(*h));
            h = following;
        }
    }

private:
    list_links root_;
};

} // namespace corewire
