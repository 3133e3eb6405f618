// The progress line of a long run: on stderr, only when that is a terminal and a person reads the result.
// Owned by main(). A thread of its own reads what the client shards publish, once a second; it touches nothing of theirs.
#pragma once

#include <corewire/apps/pingpong/client_run.hh>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace corewire::pingpong {

class progress_display {
public:
    progress_display(const std::vector<progress_board>& boards, bool wanted);
    ~progress_display() { stop(); }
    progress_display(const progress_display&) = delete;
    progress_display& operator=(const progress_display&) = delete;

    /// Ends the thread and clears the line.
    void stop();

private:
    void show_until_stopped();

    const std::vector<progress_board>& boards_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    std::thread thread_;
};

} // namespace corewire::pingpong
