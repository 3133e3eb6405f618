#include "player.hh"

#include "constants.hh"

#include <corewire/net/posix/linux_tcp_info.hh>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <netinet/in.h>
#include <unistd.h>

namespace corewire::conformance {

void* library_symbol(const char* name) {
    static void* const library = [] {
        const char* folder = std::getenv("COREWIRE_BINARY_DIR");
        const std::string path = std::string(folder != nullptr ? folder : ".") + "/bin/libcorewire_packetdrill.so";
        void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) throw std::runtime_error(::dlerror());
        return handle;
    }();
    return ::dlsym(library, name);
}

void (*load_library())(const char*, packetdrill_interface*) {
    void* const symbol = library_symbol("packetdrill_interface_init");
    if (symbol == nullptr) throw std::runtime_error("packetdrill_interface_init is not exported");
    return reinterpret_cast<void (*)(const char*, packetdrill_interface*)>(symbol);
}

player::player(const char* flags, family_mode mode) : mode_(mode) {
    if (mode == family_mode::ipv6) { // as packetdrill's suites have them
        connection_.local = *ipv6::parse("fd3d:0a0b:17d6::1");
        connection_.remote = *ipv6::parse("fd3d:fa7b:d17d::1");
    }
    load_library()(flags, &i_);
    start_ = now();
    second_ = std::thread([this] { second_thread(); });
}

player::~player() {
    {
        const std::lock_guard lock(run_lock_);
        quit_ = true;
    }
    handed_.notify_all();
    for (const auto& [script, live] : fds_) i_.close(i_.userdata, live);
    i_.free(i_.userdata); // ends a call that still blocks
    second_.join();
}

void player::fail(const std::string& why) const {
    std::string where;
    if (current_ != nullptr) where = "line " + std::to_string(current_->line) + ": " + current_->text + '\n';
    throw script_failed(history_ + where + "    " + why);
}

script_time player::now() {
    timeval t{};
    i_.gettimeofday(i_.userdata, &t, nullptr);
    return t.tv_sec * script_time{1'000'000} + t.tv_usec;
}

void player::play(const std::string& script) {
    const std::vector<step> steps = parse_script(script);
    std::unique_lock lock(run_lock_);
    for (const step& s : steps) {
        current_ = &s;
        lock.unlock();
        lock.lock();
        play_step(s);
        history_ += std::to_string(now() - start_) + " us: " + s.text + '\n';
    }
    lock.unlock();
    end_blocking();
}

/// When the step is due, on the library's clock; and what steps after it are relative to.
void player::wait_for(const step& s) {
    const script_time due = s.any_time ? now() : s.relative ? previous_ + s.at : start_ + s.at;
    if (previous_ == 0) previous_ = start_;
    const script_time target = s.any_time ? due : s.relative ? previous_ + s.at : start_ + s.at;
    if (target > now()) {
        run_lock_.unlock();
        i_.usleep(i_.userdata, static_cast<useconds_t>(target - now()));
        run_lock_.lock();
    }
    previous_ = target;
}

void player::take_time(const step& s, script_time live, const char* what) {
    if (previous_ == 0) previous_ = start_;
    if (s.any_time) {
        previous_ = live;
        return;
    }
    const script_time due = s.relative ? previous_ + s.at : start_ + s.at;
    if (live < due - tolerance || live > due + tolerance) {
        fail(std::string(what) + " at " + std::to_string(live - start_) + " us and not at " + std::to_string(due - start_));
    }
    previous_ = due;
}

void player::play_step(const step& s) {
    if (const auto* p = std::get_if<packet_step>(&s.what)) {
        if (p->inbound) {
            wait_for(s);
            inbound(*p);
        } else {
            outbound(s, *p);
        }
    } else if (const auto* i = std::get_if<icmp_step>(&s.what)) {
        wait_for(s);
        const std::vector<std::byte> bytes = build(*i, connection_);
        i_.netdev_send(i_.userdata, bytes.data(), bytes.size());
    } else if (const auto* c = std::get_if<call_step>(&s.what)) {
        call(s, *c);
    } else {
        wait_for(s);
        for (const check_step& check_this : std::get<std::vector<check_step>>(s.what)) check(check_this);
    }
}

// ---- packets ----

void player::inbound(const packet_step& p) {
    if (p.flags == "S" && p.first == 0) { // a connection of its own
        connection_.stamps_known = false;
        connection_.local_isn = 0;
    }
    const std::vector<std::byte> bytes = build(p, connection_);
    if (i_.netdev_send(i_.userdata, bytes.data(), bytes.size()) != 0) fail("netdev_send refused the packet");
}

void player::outbound(const step& s, const packet_step& p) {
    std::array<std::byte, 65'536> room;
    std::size_t size = room.size();
    long long when = 0;
    run_lock_.unlock();
    const int r = i_.netdev_receive(i_.userdata, room.data(), &size, &when);
    run_lock_.lock();
    if (r != 0) fail("netdev_receive failed");
    live_packet live;
    try {
        live = parse_packet({room.data(), size});
    } catch (const std::exception& e) {
        fail(e.what());
    }
    if (!live.is_tcp) fail("a packet that is not TCP");
    if (live.source != connection_.local || live.destination != connection_.remote) fail("a packet to or from somebody else");
    if (live.flags.find('S') != live.flags.npos) {
        connection_.local_isn = live.sequence;
        connection_.local_port = live.source_port;
        if (live.flags.find('.') == live.flags.npos) connection_.remote_port = live.destination_port;
    }
    const std::string got = "sent: " + to_text(live, connection_);
    if (!live.checksums_good) fail(got + " with a wrong checksum");
    const bool same_flags = live.flags.size() == p.flags.size() && live.flags.find_first_not_of(p.flags) == live.flags.npos;
    if (!same_flags) fail(got);
    if (static_cast<std::int32_t>(live.sequence - connection_.local_isn) != p.first) fail(got);
    if (live.payload != static_cast<std::uint32_t>(p.end - p.first)) fail(got);
    if (p.ack && static_cast<std::int32_t>(live.acknowledgment - connection_.remote_isn) != *p.ack) fail(got);
    if (p.window && live.window != *p.window) fail(got);
    if (live.urgent != p.urgent.value_or(0)) fail(got);
    if (live.ecn != p.ecn) fail(got + " with ECN bits " + std::to_string(live.ecn));
    if (live.type_of_service != p.type_of_service) fail(got + " with type of service " + std::to_string(live.type_of_service));
    if (live.hops != p.hops) fail(got + " with time to live " + std::to_string(live.hops));
    if (!live.dont_fragment) fail(got + " that may be fragmented");
    if (!p.any_options) compare_options(p, live);
    take_time(s, when, got.c_str());
}

void player::compare_options(const packet_step& p, const live_packet& live) {
    std::vector<tcp_option_text> options = live.options;
    for (std::size_t i = 0; i < options.size() && i < p.options.size(); ++i) {
        tcp_option_text& o = options[i];
        if (o.name != p.options[i].name || o.numbers.size() != p.options[i].numbers.size()) break;
        if (o.name == "sack") {
            for (std::int64_t& n : o.numbers) n = static_cast<std::int32_t>(static_cast<std::uint32_t>(n) - connection_.remote_isn);
        }
        if (o.name == "TS") { // the first tells how the live clock stands to the script's
            const auto value = static_cast<std::uint32_t>(o.numbers[0]);
            const auto wanted = static_cast<std::uint32_t>(p.options[i].numbers[0]);
            if (!connection_.stamps_known) connection_.stamp_offset = value - wanted;
            connection_.stamps_known = true;
            const auto off = static_cast<std::int32_t>(value - connection_.stamp_offset - wanted);
            if (off < -2 || off > 2) fail("TS val is " + std::to_string(value - connection_.stamp_offset));
            o.numbers[0] = wanted;
        }
    }
    if (options != p.options) fail("the options are " + to_text(options));
}

// ---- calls ----

void player::call(const step& s, const call_step& c) {
    if (c.until) {
        end_blocking();
        wait_for(s);
        begin_blocking(s);
        return;
    }
    wait_for(s);
    errno = 0;
    const std::int64_t result = make_call(c);
    check_result(s, c, result, errno);
}

void player::check_result(const step& s, const call_step& c, std::int64_t result, int error) {
    current_ = &s;
    const bool makes_fd = c.name == "socket" || c.name == "accept" || c.name == "epoll_create" ||
                          (c.name == "fcntl" && c.arguments.at(1) == "F_DUPFD");
    if (makes_fd && c.result >= 0) {
        if (result < 0) fail(std::string("failed: ") + std::strerror(error));
        fds_[static_cast<int>(c.result)] = static_cast<int>(result);
        if (c.name != "epoll_create") last_fd_ = static_cast<int>(result);
        return;
    }
    if (result != c.result) fail("returned " + std::to_string(result) + (result < 0 ? std::string(": ") + std::strerror(error) : ""));
    if (c.result < 0 && !c.error.empty() && constant(c.error) != error) fail(std::string("failed with ") + std::strerror(error));
}

/// Whether a thread of this process has nothing to do (proc(5), the state in /proc/PID/task/TID/stat).
static bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(") ");
    return name_end != text.npos && text[name_end + 2] == 'S';
}

void player::begin_blocking(const step& s) {
    blocked_ = {.what = &s};
    handed_.notify_all();
    std::unique_lock lock(run_lock_, std::adopt_lock);
    handed_.wait(lock, [&] { return blocked_.begun; });
    while (!blocked_.done && !sleeps(blocked_.thread)) { // the script goes on when the call waits, however late its thread gets a CPU
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
    }
    lock.release();
}

/// The call must have returned by now, or return while nothing else happens.
void player::end_blocking() {
    if (blocked_.what == nullptr) return;
    const step& s = *blocked_.what;
    const call_step& c = std::get<call_step>(s.what);
    const bool ours = run_lock_.try_lock();
    for (int i = 0; i < 1000 && !blocked_.done; ++i) {
        run_lock_.unlock();
        i_.usleep(i_.userdata, 1000);
        run_lock_.lock();
    }
    const blocked_call b = blocked_;
    blocked_ = {};
    if (ours) run_lock_.unlock();
    current_ = &s;
    if (!b.done) fail("the call has not returned");
    check_result(s, c, b.result, b.error);
    const script_time due = b.started + *c.until - (s.relative ? s.at : b.started - start_);
    if (b.ended < due - tolerance || b.ended > due + tolerance) {
        fail("returned at " + std::to_string(b.ended - start_) + " us and not at " + std::to_string(due - start_));
    }
}

void player::second_thread() {
    std::unique_lock lock(run_lock_);
    for (;;) {
        handed_.wait(lock, [&] { return quit_ || (blocked_.what != nullptr && !blocked_.begun); });
        if (quit_) return;
        blocked_.begun = true;
        blocked_.thread = ::gettid();
        blocked_.started = now();
        const call_step& c = std::get<call_step>(blocked_.what->what);
        handed_.notify_all();
        lock.unlock();
        errno = 0;
        const std::int64_t result = make_call(c);
        const int error = errno;
        if (quit_) return;
        const script_time ended = now();
        lock.lock();
        blocked_.result = result;
        blocked_.error = error;
        blocked_.ended = ended;
        blocked_.done = true;
    }
}

void player::check(const check_step& c) {
    linux_tcp_info_fields info{};
    socklen_t size = sizeof info;
    if (i_.getsockopt(i_.userdata, last_fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) fail("TCP_INFO failed");
    const std::int64_t is = info_field(info, c.name);
    const bool holds = c.comparison == "==" ? is == c.value : c.comparison == "!=" ? is != c.value
                     : c.comparison == "<" ? is < c.value : c.comparison == "<=" ? is <= c.value
                     : c.comparison == ">" ? is > c.value : is >= c.value;
    if (!holds) fail(c.name + " is " + std::to_string(is));
}

} // namespace corewire::conformance
