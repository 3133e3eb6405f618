// Explicit congestion notification of one connection (RFC 3168), and in DCTCP's exact form (RFC 8257 3.2). AccECN:
// accurate_ecn.hh. A few words in
// the control block; off unless both ends agreed. Connections that use it take the general paths, not the predicted ones.
//
//     data with ECT(0) --> router marks CE --> receiver: `echo` sets ECE in its ACKs until CWR comes
//     sender: ECE --> the window shrinks, once a round trip --> CWR on the next new data
#pragma once

#include <corewire/net/tcp/accurate_ecn.hh>
#include <corewire/net/tcp/seq.hh>

#include <cstdint>
#include <memory>

namespace corewire::tcp {

struct ecn_state {
    bool offered : 1 = false;           ///< our SYN said ECE and CWR
    bool offered_accurate : 1 = false;  ///< our SYN said AE, ECE and CWR
    bool fell_back : 1 = false;         ///< a SYN of ours said so, and a later one nothing any more
    bool seen : 1 = false;              ///< something came with ECT or CE
    bool handshake_settled = false;     ///< the segment at hand was the handshake's ACK: its ACE is no counter
    bool on = false;           ///< agreed on, in whichever form
    bool exact = false;        ///< DCTCP: ECE tells of each segment, and CWR is not waited for

    // as the receiver of data
    bool echo = false;         ///< our ACKs say ECE
    bool old_ack_wanted = false; ///< first an ACK for what came before the mark changed (RFC 8257 3.2)
    bool old_echo = false;

    // as the sender
    bool tell_reduced = false; ///< CWR on the next new data

    seq_number old_ack;        ///< as the receiver, with old_echo
    seq_number reduced_until;  ///< as the sender: marks in ACKs up to here belong to a window that was reduced already
    /// AccECN (RFC 9768): then nothing of the above but `on` and reduced_until counts.
    std::unique_ptr<accurate_ecn> accurate;
};

} // namespace corewire::tcp
