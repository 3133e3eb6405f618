#include <corewire/rdma/channel/listener_core.hh>

#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>

namespace corewire::rdma {

namespace {

class cm_listener final : public listener::core, public cm_handler, public rc_parent {
public:
    cm_listener(context& in, const socket_address& at, const rc_options& options) : context_(in), options_(options) {
        if (in.cm().create_id(in.events().get(), &id_, static_cast<cm_handler*>(this), RDMA_PS_TCP) != 0)
            verbs::fail(verbs::operation::manage_connection, errno, "make an rdma_cm id");
        socket_name name(at);
        const int backlog = static_cast<int>(options.accept_backlog);
        if (in.cm().bind_addr(id_, &name.any) == 0 && in.cm().listen(id_, backlog) == 0) return;
        const int error = errno;
        in.cm().destroy_id(id_);
        verbs::fail(verbs::operation::manage_connection, error, "listen for RDMA connections at " + at.to_string());
    }
    cm_listener(const cm_listener&) = delete;
    ~cm_listener() override {
        context_.cm().destroy_id(id_);
        for (rc_connection* c : children_) c->shut_down();
    }

    void on_cm_event(const cm_event& e) noexcept override {
        if (e.what == RDMA_CM_EVENT_DEVICE_REMOVAL) return device_gone_ = true, changed.set();
        if (e.what != RDMA_CM_EVENT_CONNECT_REQUEST) return;
        reap();
        const auto peer = rc_hello::from_wire(e.private_data);
        if (!peer || !may_be_asked(e.retries, e.not_ready_retries)) return ++counts.rejected_foreign, reject(e.id);
        if (children_.size() >= options_.accept_backlog) return ++counts.rejected_full, reject(e.id);
        rc_connection* made = nullptr;
        try {
            children_.reserve(children_.size() + 1);
            made = new rc_connection(context_, options_);
            made->accept(e, *peer, *this);
            children_.push_back(made);
        } catch (const std::exception&) {
            ++counts.rejected_for_want;
            if (made == nullptr) return reject(e.id);
            context_.cm().reject(e.id, nullptr, 0);
            made->shut_down();
        }
    }
    void child_changed() noexcept override { changed.set(); }

    std::optional<rc_channel> take() override {
        reap();
        auto made = oldest_made();
        if (made != children_.end()) { // unless it has broken the rules meanwhile
            (*made)->catch_up();
            reap();
            made = oldest_made();
        }
        if (made == children_.end() && device_gone_)
            throw std::system_error(std::make_error_code(std::errc::no_such_device), "rdma accept: the device of the listener's address");
        if (made == children_.end()) return std::nullopt;
        rc_connection* const out = *made;
        children_.erase(made);
        out->adopt();
        return rc_channel(*out);
    }
    std::uint16_t port() const noexcept override { return host_to_be(context_.cm().get_src_port(id_)); }

private:
    std::vector<rc_connection*>::iterator oldest_made() noexcept {
        return std::ranges::find_if(children_, [](rc_connection* c) { return c->phase() != rc_connection::state::connecting; });
    }
    void reject(rdma_cm_id* id) const noexcept {
        context_.cm().reject(id, nullptr, 0);
        context_.cm().destroy_id(id);
    }
    void reap() noexcept {
        std::erase_if(children_, [this](rc_connection* c) {
            if (c->phase() != rc_connection::state::broken) return false;
            ++counts.died_early;
            c->shut_down();
            return true;
        });
    }

    context& context_;
    rc_options options_;
    rdma_cm_id* id_ = nullptr;
    std::vector<rc_connection*> children_; ///< in the order of their requests
    bool device_gone_ = false;             ///< of an address; who listens at all of them goes on with the others
};

} // namespace

listener::listener(std::unique_ptr<core> c) noexcept : core_(std::move(c)) {}
listener::listener(listener&&) noexcept = default;
listener& listener::operator=(listener&&) noexcept = default;
listener::~listener() = default;

listener listener::bind(context& in, socket_address at, rc_options options) {
    return listener(std::make_unique<cm_listener>(in, at, options));
}

listener listener::over(context& in, tcp_listener streams, over_options options) {
    return listener(listen_over(in, std::move(streams), std::move(options)));
}

task<rc_channel> listener::accept(wait_limits limits) {
    for (;;) {
        std::optional<rc_channel> made = core_->take();
        if (made) {
            ++core_->counts.accepted;
            co_return std::move(*made);
        }
        core_->changed.reset();
        co_await core_->changed.wait(limits);
    }
}

std::uint16_t listener::port() const noexcept { return core_->port(); }
const listener_statistics& listener::statistics() const noexcept { return core_->counts; }

task<rc_channel> connector::connect(socket_address to, wait_limits limits, socket_address from) {
    rc_channel made(*new rc_connection(context_, options_)); // ends it when anything is thrown
    auto& c = const_cast<rc_connection&>(made.connection());
    const socket_name there(to), here(from);
    const bool bound = from != socket_address{};
    c.start_connecting(bound ? &here.any : nullptr, &there.any);
    co_await c.made().wait(limits);
    c.throw_if_not_open();
    co_return made;
}

} // namespace corewire::rdma
