// Urgent data as RFC 6093 reads it (RFC 9293 3.8.5): a mark in the stream, and no more. The pointer says which byte follows the last
// urgent one; the bytes themselves stay in line, whatever the length of what is urgent.
//
//     write, set_urgent()  -->  URG and the pointer in every segment that begins before the mark, until all of it is acknowledged
//     URG arrives ahead of the mark that was known  -->  event::urgent, once; the reader asks how far it is to the mark
//
// A few words in the control block; connections that use it take the general paths meanwhile. New programs should not (RFC 6093 6).
#pragma once

#include <corewire/net/tcp/seq.hh>

namespace corewire::tcp {

struct urgent_state {
    bool sending = false;   ///< `send_end` is not acknowledged
    bool known = false;     ///< `receive_end` was told, and has not been read past
    seq_number send_end;    ///< SND.UP: the byte behind our last urgent one
    seq_number receive_end; ///< RCV.UP: the same of the peer's
};

} // namespace corewire::tcp
