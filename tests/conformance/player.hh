// Plays a script against libcorewire_packetdrill.so, through nothing but its table of functions, the way packetdrill does:
// a step's call or inbound packet waits for its time by usleep(); an outbound packet is asked for by netdev_receive() and
// must be the next one, with just these flags, numbers and options, at its time (give or take `tolerance`); calls with
// `...` in their time are made by a second thread. The host's sysctls are not touched.
//
// One library's; throws script_failed with the script's line and what happened so far.
#pragma once

#include "packet_text.hh"

#include <corewire/apps/packetdrill/interface.hh>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace corewire::conformance {

struct script_failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// As packetdrill's --ip_version: which sockets the script has, and what is on its wire.
enum class family_mode { ipv4, mapped, ipv6 };

/// Whatever the library exports under this name, or null.
void* library_symbol(const char* name);
/// The loaded library; one a process.
void (*load_library())(const char* flags, packetdrill_interface* out);

class player {
public:
    static constexpr script_time tolerance = 4'000;

    explicit player(const char* flags, family_mode mode = family_mode::ipv4);
    ~player();
    player(const player&) = delete;

    void play(const std::string& script);
    packetdrill_interface& table() noexcept { return i_; }
    /// The socket that was made or accepted last.
    int connection_fd() const noexcept { return last_fd_; }

private:
    struct blocked_call {
        const step* what = nullptr;
        script_time started = 0, ended = 0;
        std::int64_t result = 0;
        int error = 0;
        pid_t thread = 0; ///< that makes it
        bool begun = false, done = false;
    };
    script_time now();
    void wait_for(const step& s);
    void take_time(const step& s, script_time live, const char* what);
    void play_step(const step& s);
    void inbound(const packet_step& p);
    void outbound(const step& s, const packet_step& p);
    void compare_options(const packet_step& p, const live_packet& live);
    void call(const step& s, const call_step& c);
    void check_result(const step& s, const call_step& c, std::int64_t result, int error);
    std::int64_t make_call(const call_step& c);
    std::int64_t option_call(const call_step& c, bool set);
    std::int64_t poll_call(const call_step& c);
    std::int64_t error_queue_call(const call_step& c);
    std::int64_t inquiring_call(const call_step& c);
    std::int64_t saved_syn_call(const call_step& c, int fd);
    std::int64_t stamping_call(const call_step& c);
    std::int64_t epoll_call(const call_step& c);
    void check(const check_step& c);
    void begin_blocking(const step& s);
    void end_blocking();
    void second_thread();
    int live_fd(const std::string& script_fd) const;
    [[noreturn]] void fail(const std::string& why) const;

    int domain() const noexcept { return mode_ == family_mode::ipv4 ? AF_INET : AF_INET6; }

    packetdrill_interface i_{};
    const family_mode mode_;
    connection_text connection_;
    std::map<int, int> fds_;              ///< the script's to the live ones
    int last_fd_ = -1;                    ///< of the connection: for checks
    script_time start_ = 0, previous_ = 0;
    const step* current_ = nullptr;
    std::string history_;

    std::mutex run_lock_;                 ///< held by whichever thread plays, but not during calls that block
    std::condition_variable handed_;
    blocked_call blocked_;
    std::atomic<bool> quit_{false};
    std::thread second_;
};

} // namespace corewire::conformance
